import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test from 'ava';

const guard = fileURLToPath(new URL('../../../shared/process/require-node-24.mjs', import.meta.url));

/** Runs the guard under this Node, which reports another version. */
function runAs(version: string) {
  const pretend = `Object.defineProperty(process, 'versions', { value: { node: '${version}' } })`;
  return promisify(execFile)(process.execPath, [
    '--import',
    `data:text/javascript,${encodeURIComponent(pretend)}`,
    guard,
  ]);
}

test('prints nothing under any Node 24', async (t) => {
  t.like(await runAs('24.0.0'), { stdout: '', stderr: '' });
  t.like(await runAs(process.versions.node), { stdout: '', stderr: '' });
});

test('exits under another major version with one sentence that names both versions and the solution', async (t) => {
  for (const version of ['20.20.2', '22.19.0', '26.1.0']) {
    const error = await t.throwsAsync(runAs(version));
    t.like(error, { code: 1 });
    t.regex(String(error?.message), new RegExp(`runs on Node 24, and this is Node ${version}\\. .*npm ci`));
  }
});
