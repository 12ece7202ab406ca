const RefreshPlugin = require('@pmmmwh/react-refresh-webpack-plugin');
const HtmlPlugin = require('html-webpack-plugin');

// Nothing is said of hosts, origins or the preview: a user's project knows nothing of them.
const options = { presets: [['@babel/preset-react', { runtime: 'automatic', development: true }]], plugins: ['react-refresh/babel'] };

module.exports = {
    mode: 'development',
    entry: './index.jsx',
    module: { rules: [{ test: /\.jsx$/, exclude: /node_modules/, use: { loader: 'babel-loader', options } }] },
    plugins: [new HtmlPlugin({ title: 'A webpack site of the tests' }), new RefreshPlugin()],
};
