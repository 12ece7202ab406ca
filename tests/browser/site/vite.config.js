import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// Nothing is said of hosts, origins or the preview: a user's project knows nothing of them.
export default defineConfig({ plugins: [react()], server: { strictPort: true } });
