import Counter from './Counter.jsx';
import Greeting from './Greeting.jsx';

// Rendered by the dev server: an edit of it is shown without a load of the page, too.
export default function Page() {
    return (
        <main>
            <h1 id="served">served</h1>
            <Counter />
            <Greeting />
        </main>
    );
}
