import { fileURLToPath } from 'node:url';

/** Where a stack keeps its data, `.data/` beside `package.json`. */
export const dataDirectory = fileURLToPath(new URL('../../.data', import.meta.url));

/** In that folder, while a stack runs: where its identity provider is, and the secret that tokens are asked for with. */
export const standingFile = 'stack.json';
