export const metadata = { title: 'A Next.js site of the tests' };

export default function Layout({ children }) {
    return (
        <html lang="en">
            <body>{children}</body>
        </html>
    );
}
