import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { buildRelease, CannotRelease } from './build-release.ts';

const help = `npm run release                   writes the archive of the present commit, its SBOM and SHA-256 sums into .release/
npm run release -- --tag v0.1.0   also requires that this is the version, and that the changelog has its date
`;
const root = fileURLToPath(new URL('../..', import.meta.url));

function wishes(): { tag?: string | undefined } | undefined {
  try {
    return parseArgs({ options: { tag: { type: 'string' } } }).values;
  } catch {
    return undefined;
  }
}

const wished = wishes();
if (wished === undefined) {
  process.stderr.write(help);
  process.exitCode = 2;
} else {
  try {
    process.stdout.write(
      await buildRelease({ root, folder: fileURLToPath(new URL('../../.release', import.meta.url)), tag: wished.tag }),
    );
  } catch (error) {
    if (!(error instanceof CannotRelease)) throw error;
    process.stderr.write(error.message);
    process.exitCode = 1;
  }
}
