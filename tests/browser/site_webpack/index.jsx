import { createRoot } from 'react-dom/client';

import App from './App.jsx';

const root = document.body.appendChild(document.createElement('div'));
createRoot(root).render(<App />);
