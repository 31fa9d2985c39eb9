import { readFileSync } from 'node:fs';
import test from 'ava';
import { findCycle, importsOf, productionFiles, projectFiles, reachableFrom } from './support/source-files.ts';

const files = productionFiles();
const sideOf = (path: string) => path.split('/')[0] ?? '';
const pathsOf = (found: readonly { path: string }[]) => found.map(({ path }) => path);

test('imports are found in every form that the code can have', (t) => {
  const text = `
    import { a } from './a.ts';
    import type { B } from "../shared/b.ts";
    import {
      c,
    } from './c/c.ts';
    import './d.mjs';
    export { e } from './e.ts';
    const f = await import('./f.ts');
    import pino from 'pino';
    import { readFile } from 'node:fs/promises';
  `;
  t.deepEqual(importsOf('ingress/x.ts', text), [
    'ingress/a.ts',
    'shared/b.ts',
    'ingress/c/c.ts',
    'ingress/d.mjs',
    'ingress/e.ts',
    'ingress/f.ts',
  ]);
  t.true(files.length > 50, 'the production code is there to be looked at');
  const known = new Set(pathsOf(files));
  for (const { path, imports } of files) {
    for (const imported of imports) t.true(known.has(imported), `${path} imports ${imported}`);
  }
});

test('what runs in a browser imports nothing of the service but types', (t) => {
  const values = /\bimport (?!type\b)[^;]*?from '(\.[^']+)'/g;
  const browser = files.filter(({ path }) => path.startsWith('ingress/console/'));
  t.true(browser.length > 20);
  for (const { path, text } of browser) {
    const imported = importsOf(path, [...text.matchAll(values)].map(([statement]) => statement).join('\n'));
    t.deepEqual(
      imported.filter((other) => !other.startsWith('ingress/console/')),
      [],
      path,
    );
  }
});

test('ingress and workers import shared and not each other, and shared neither', (t) => {
  const allowed: Record<string, string[]> = {
    ingress: ['ingress', 'shared'],
    workers: ['workers', 'shared'],
    shared: ['shared'],
  };
  const wrong = files.flatMap(({ path, imports }) =>
    imports
      .filter((imported) => !allowed[sideOf(path)]?.includes(sideOf(imported)))
      .map((imported) => `${path} imports ${imported}`),
  );
  t.deepEqual(wrong, []);
});

test('no file imports itself, however far around', (t) => {
  const ring = [
    { path: 'a', imports: ['b'] },
    { path: 'b', imports: ['c', 'd'] },
    { path: 'c', imports: [] },
    { path: 'd', imports: ['b'] },
  ];
  t.deepEqual(findCycle(ring), ['b', 'd', 'b']);
  t.is(findCycle(ring.slice(0, 3)), undefined);
  t.is(findCycle(files), undefined);
});

test('the environment is read in one place', (t) => {
  // What runs in a browser has none; there it stands in programs that are shown.
  const ours = files.filter(({ path }) => !path.startsWith('ingress/console/'));
  t.deepEqual(pathsOf(ours.filter(({ text }) => /\bprocess\s*\.\s*env\b|\benv\b.*from 'node:process'/.test(text))), [
    'shared/process/config.ts',
  ]);
});

test('everything at the top of shared is used by both sides', (t) => {
  const entries = new Set(
    projectFiles()
      .filter((path) => path.startsWith('shared/'))
      .map((path) => path.split('/')[1] ?? ''),
  );
  for (const side of ['ingress', 'workers']) {
    const starts = pathsOf(files.filter(({ path }) => sideOf(path) === side));
    const used = new Set([...reachableFrom(files, starts)].map((path) => path.split('/').slice(0, 2).join('/')));
    const unused = [...entries].filter((entry) => !used.has(`shared/${entry}`));
    t.deepEqual(unused, [], `not used by ${side}`);
  }
});

test('errors are written to HTTP in one place of each listener', (t) => {
  const writers = pathsOf(files.filter(({ text }) => /\berrorBody\b/.test(text)));
  t.deepEqual(writers.sort(), [
    'ingress/middleware/answer-errors.ts',
    'shared/errors.ts', // where it is defined
    'shared/process/operations.ts',
  ]);
});

/** Routes of this text whose last stage queues a request, and that nothing admits before. */
function unadmitted(app: string, stagesThatQueue: readonly string[]): string[] {
  const routes = app.match(/router\.\w+\([\s\S]*?\);/g) ?? [];
  return routes.filter((route) => {
    const queuedAt = stagesThatQueue.map((stage) => route.search(new RegExp(`\\b${stage}\\b`))).filter((at) => at >= 0);
    const admittedAt = route.indexOf('admitRequest(');
    return queuedAt.some((at) => admittedAt < 0 || admittedAt > at);
  });
}

test('whatever is queued was admitted: no route reaches a queue but through the one stage that charges for it', (t) => {
  t.deepEqual(unadmitted("router.post('/a', readBody, admitRequest(parts), queueIt(parts));", ['queueIt']), []);
  for (const wrong of ["router.post('/a', readBody, queueIt(parts));", 'router.get(x, queueIt(p), admitRequest(p));']) {
    t.deepEqual(unadmitted(wrong, ['queueIt']), [wrong]);
  }
  const queuing = files.filter(({ path, text }) => sideOf(path) === 'ingress' && /\bqueues\s*\.add\(/.test(text));
  t.deepEqual(
    pathsOf(queuing.filter(({ path }) => !path.startsWith('ingress/routes/'))),
    [],
    'a queue is filled by routes and nothing else',
  );
  const stages = queuing.flatMap(({ text }) =>
    [...text.matchAll(/^export function (\w+)/gm)].map(([, name = '']) => name),
  );
  t.true(stages.length > 0);
  const app = files.find(({ path }) => path === 'ingress/app.ts')?.text ?? '';
  for (const stage of stages) t.regex(app, new RegExp(`\\b${stage}\\(`), 'the stage is used by a route');
  t.deepEqual(unadmitted(app, stages), []);
  const openers = files.filter(({ text }) => /\bnew Queue\(|\.addBulk\(/.test(text));
  t.deepEqual(pathsOf(openers), ['shared/jobs/queues.ts']);
  const fillers = files.filter(({ text }) => /\.add\(jobName\b/.test(text));
  t.deepEqual(pathsOf(fillers).sort(), ['ingress/queue/request-queues.ts', 'workers/batches/lines/line-queue.ts']);
});

test('the public listener knows nothing of the queue dashboard', (t) => {
  const dashboard = (paths: Iterable<string>) =>
    [...paths].filter((path) => path.startsWith('ingress/queue/dashboard/'));
  t.true(dashboard(pathsOf(files)).length > 0);
  t.deepEqual(dashboard(reachableFrom(files, ['ingress/app.ts'])), []);
  const loading = files.filter(({ text }) => /from '@bull-board\//.test(text));
  t.deepEqual(dashboard(pathsOf(loading)), pathsOf(loading));
});

test('no file of production code is longer than 250 lines', (t) => {
  const long = files.filter(({ text }) => text.trimEnd().split('\n').length > 250);
  t.deepEqual(pathsOf(long), []);
});

test('no script makes a key of its own: a cluster has to know each before it runs one', (t) => {
  const scripts = projectFiles().filter((path) => path.endsWith('.lua'));
  t.true(scripts.length > 10);
  const builds = (text: string) => /svc:|\{p/.test(text.replace(/^--.*$/gm, ''));
  t.true(builds("redis.call('GET', 'svc:a')"));
  t.deepEqual(
    scripts.filter((path) => builds(readFileSync(path, 'utf8'))),
    [],
  );
});

test('no file is a barrel or a drawer', (t) => {
  const drawer = /(^|\/)(index\.[cm]?[jt]s|(utils?|helpers?|lib|common|services?|types)(\.[cm]?[jt]s|\/))/;
  t.regex('shared/utils.ts', drawer);
  t.regex('workers/helpers/a.ts', drawer);
  t.deepEqual(
    projectFiles().filter((path) => drawer.test(path)),
    [],
  );
});

test('the top of the repository is what a reader expects there, and dotfiles', (t) => {
  const top = new Set(projectFiles().map((path) => path.split('/')[0] ?? ''));
  t.deepEqual([...top].filter((name) => !name.startsWith('.')).sort(), [
    'README.md',
    'docker-compose.yml',
    'ingress',
    'package-lock.json',
    'package.json',
    'shared',
    'test',
    'tsconfig.json',
    'workers',
  ]);
});
