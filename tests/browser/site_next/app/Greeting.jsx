'use client';

import { useActionState } from 'react';

import { greet } from './actions.js';

// A form that the dev server answers: it refuses one whose origin is not the host that it is told.
export default function Greeting() {
    const [greeting, submit] = useActionState(greet, 'Hello, nobody');
    return (
        <form action={submit}>
            <input id="name" name="name" />
            <button id="greet">greet</button>
            <output id="greeting">{greeting}</output>
        </form>
    );
}
