// Asks in a dialog for a name, or for a yes. One question at a time: a new one answers the one before with no, else one answer
// would be taken for both.

let giveUp = null;

/**
 * `at`: {askDialog, askForm, askTitle, askText, askLabel, askName, askProblem, askSubmit}. `name` undefined: nothing is to be typed;
 * `label`: what it is, where it is no name.
 * `check(name)` says what is wrong with a name, or null. A promise of the name, of true, or of null for no.
 */
export function ask(at, { title, text, name, label = 'Name', action, check = () => null }) {
    giveUp?.();
    const { askDialog, askForm, askTitle, askText, askLabel, askName, askProblem, askSubmit } = at;
    const hasName = name !== undefined;
    askTitle.textContent = title;
    askText.textContent = text;
    askLabel.hidden = askName.hidden = !hasName;
    askLabel.textContent = label;
    askName.value = name ?? '';
    askProblem.hidden = true;
    askSubmit.textContent = action;
    askSubmit.className = hasName ? 'primary' : 'danger filled';
    const listeners = new AbortController();
    return new Promise((done) => {
        const finish = (answer) => {
            listeners.abort();
            giveUp = null;
            if (askDialog.open) askDialog.close();
            done(answer);
        };
        giveUp = () => finish(null);
        const submit = (event) => {
            event.preventDefault();
            const problem = hasName ? check(askName.value) : null;
            askProblem.hidden = problem === null;
            askProblem.textContent = problem ?? '';
            if (problem === null) finish(hasName ? askName.value : true);
        };
        askForm.addEventListener('submit', submit, { signal: listeners.signal });
        // Not that of the question before, which the browser may tell only now.
        askDialog.addEventListener('close', () => askDialog.open || finish(null), { signal: listeners.signal });
        askDialog.showModal();
        (hasName ? askName : askForm.querySelector('button[value=cancel]')).focus();
        if (hasName) askName.setSelectionRange(0, name.lastIndexOf('.') > 0 ? name.lastIndexOf('.') : name.length);
    });
}
