import { execFile } from 'node:child_process';
import { readFileSync, realpathSync } from 'node:fs';
import { delimiter } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test from 'ava';
import { importsOf, projectFiles } from '../../support/source-files.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const guard = `${root}shared/process/require-node-24.mjs`;
const entries = projectFiles().filter((path) =>
  /^(ingress|workers)\/(?!console|documentation|pages).*\bmain\.ts$/.test(path),
);

/** Runs a program under this Node, which reports another version. */
function runAs(version: string, program = guard) {
  const pretend = `Object.defineProperty(process, 'versions', { value: { node: '${version}' } })`;
  return promisify(execFile)(process.execPath, [
    '--import',
    `data:text/javascript,${encodeURIComponent(pretend)}`,
    program,
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

test('each entry of the product refuses another Node with that sentence, before Node reads any TypeScript', async (t) => {
  t.is(entries.length, 5);
  for (const entry of entries) {
    const path = realpathSync(`${root}${entry}`);
    t.regex(path, /\.mjs$/, 'Node without TypeScript refuses a name in .ts');
    const [first, ...others] = importsOf(path, readFileSync(path, 'utf8'));
    t.is(first, guard);
    for (const other of others)
      t.true(readFileSync(path, 'utf8').includes(`await import('./${other.slice(path.lastIndexOf('/') + 1)}')`));
    const error = await t.throwsAsync(runAs('20.20.2', `${root}${entry}`), undefined, entry);
    t.regex(String(error?.message), /runs on Node 24, and this is Node 20\.20\.2\./, entry);
  }
});

test('each entry refuses the older Node of this machine, if it has one', async (t) => {
  const path = (process.env.PATH ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'));
  const env = { ...process.env, PATH: path.join(delimiter) };
  const { stdout } = await promisify(execFile)('node', ['--version'], { env }).catch(() => ({ stdout: 'none' }));
  if (!/^v(18|20|22)\./.test(stdout)) return t.pass(`the Node of this machine is ${stdout.trim()}`);
  for (const entry of entries) {
    const error = await t.throwsAsync(promisify(execFile)('node', [entry], { env, cwd: root }), undefined, entry);
    const { stderr } = error as Error & { stderr: string }; // of a program that failed
    t.is(stderr.trim().split('\n').length, 1, stderr);
    t.true(stderr.includes(`runs on Node 24, and this is Node ${stdout.trim().slice(1)}.`), stderr);
  }
});

test('all files name one version of Node 24', (t) => {
  const { engines } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as { engines: { node: string } }; // our own file
  const named = [
    'package.json',
    'docker-compose.yml',
    'ingress/documentation/kubernetes.md',
    'README.md',
    '.github/CONTRIBUTING.md',
  ];
  for (const file of named) {
    const text = readFileSync(`${root}${file}`, 'utf8');
    const versions = [...text.matchAll(/(?<!@types\/)\bnode(?:-[a-z]+-[a-z0-9]+)?"?[: ]+"?(24\.\d+(?:\.\d+)?)/gi)].map(
      ([, version]) => version,
    );
    t.deepEqual([...new Set(versions)], [engines.node], file);
  }
  const lock = JSON.parse(readFileSync(`${root}package-lock.json`, 'utf8')) as {
    packages: Record<string, { version: string }>;
  };
  const installed = Object.entries(lock.packages).filter(([name]) =>
    /\/node-(bin-)?(linux|win|darwin)-[a-z0-9]+$/.test(name),
  );
  t.is(installed.length, 3);
  for (const [name, { version }] of installed) t.is(version, engines.node, name);
});
