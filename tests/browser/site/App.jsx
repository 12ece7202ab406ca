import { useState } from 'react';

export default function App() {
    const [count, setCount] = useState(0);
    return (
        <button id="count" onClick={() => setCount(count + 1)}>
            first {count}
        </button>
    );
}
