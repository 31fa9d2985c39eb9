import { readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import test from 'ava';
import { inferenceRoutes } from '../ingress/routes/inference.ts';
import { findCycle, importsOf, productionFiles, projectFiles, reachableFrom } from './support/source-files.ts';

const files = productionFiles();
const sideOf = (path: string) => path.split('/')[0] ?? '';
const pathsOf = (found: readonly { path: string }[]) => found.map(({ path }) => path);

test('finds imports in every form that the code can have', (t) => {
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
  t.true(files.length > 50, 'there must be production code');
  const known = new Set(pathsOf(files));
  for (const { path, imports } of files) {
    for (const imported of imports) t.true(known.has(imported), `${path} imports ${imported}`);
  }
});

test('code for the browser imports only types from the service', (t) => {
  const values = /\bimport (?!type\b)[^;]*?from '(\.[^']+)'/g;
  for (const folder of ['ingress/console/', 'ingress/documentation/browser/']) {
    const browser = files.filter(({ path }) => path.startsWith(folder));
    t.true(browser.length >= 5, folder);
    for (const { path, text } of browser) {
      const imported = importsOf(path, [...text.matchAll(values)].map(([statement]) => statement).join('\n'));
      t.deepEqual(
        imported.filter((other) => !other.startsWith(folder)),
        [],
        path,
      );
    }
  }
});

test('ingress and workers import shared and not each other, and shared imports neither', (t) => {
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

test('no file imports itself, directly or through others', (t) => {
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
  // Code for the browser has no environment. It and the examples of the reference contain the text only in example programs.
  const programs = ['ingress/console/', 'ingress/documentation/reference/example-programs.ts'];
  const ours = files.filter(({ path }) => !programs.some((place) => path.startsWith(place)));
  t.deepEqual(pathsOf(ours.filter(({ text }) => /\bprocess\s*\.\s*env\b|\benv\b.*from 'node:process'/.test(text))), [
    'shared/process/config.ts',
  ]);
});

/** The folder of a file. A file at the top of a side counts as its own folder. */
const folderOf = (path: string) => (dirname(path).includes('/') ? dirname(path) : path);

/** The folders of these files, each with the folders that its files import. */
function foldersOf(all: readonly { path: string; imports: readonly string[] }[]) {
  return [...Map.groupBy(all, ({ path }) => folderOf(path))].map(([path, inside]) => ({
    path,
    imports: [...new Set(inside.flatMap(({ imports }) => imports.map(folderOf)))].filter((other) => other !== path),
  }));
}

test('no folder imports itself, directly or through others', (t) => {
  const ring = [
    { path: 'shared/a/one.ts', imports: ['shared/b/one.ts'] },
    { path: 'shared/b/one.ts', imports: [] },
    { path: 'shared/b/two.ts', imports: ['shared/a/two.ts'] },
    { path: 'shared/a/two.ts', imports: ['shared/top.ts'] },
    { path: 'shared/top.ts', imports: [] },
  ];
  t.is(findCycle(ring), undefined, 'no cycle of files');
  t.deepEqual(findCycle(foldersOf(ring)), ['shared/a', 'shared/b', 'shared/a']);
  t.is(findCycle(foldersOf(files)), undefined);
});

/** Source files by folder. A script and the file that loads it count as one; a process begins in a link to its `main.mjs`. */
const sourcesByFolder = Map.groupBy(
  projectFiles().filter((path) => /^(ingress|workers|shared)\/.*\.(ts|mjs|lua|css)$/.test(path)),
  (path) => dirname(path),
);

test('a folder of the product has at least three source files', (t) => {
  t.true(sourcesByFolder.size > 30);
  const small = [...sourcesByFolder].filter(([folder, paths]) => {
    const names = new Set(paths.map((path) => path.replace(/\.\w+$/, '')));
    return folder.includes('/') && names.size < 3;
  });
  t.deepEqual(small, []);
});

test('no two files of one name are on a side of the product', (t) => {
  const own = files.filter(({ path }) => !/\/main\.\w+$/.test(path));
  for (const [side, ofSide] of Map.groupBy(own, ({ path }) => sideOf(path))) {
    const byName = Map.groupBy(pathsOf(ofSide), (path) => basename(path));
    t.deepEqual(
      [...byName.values()].filter((paths) => paths.length > 1),
      [],
      side,
    );
  }
});

test('the page about the architecture names every folder near the top, and is short', (t) => {
  const page = readFileSync('ingress/documentation/internals/architecture.md', 'utf8');
  t.true(page.split('\n').length <= 121);
  const folders = [...sourcesByFolder.keys()].map((folder) => folder.split('/').slice(0, 2).join('/'));
  const unnamed = [...new Set(folders)].filter((folder) => !page.includes(`\`${folder}/\``));
  t.deepEqual(unnamed, []);
  const twice = page.split(/\n\n|\n(?=[|\d])/).filter((part) => {
    const paths = part.match(/`\w+\/[\w./-]+`/g) ?? [];
    return new Set(paths).size < paths.length;
  });
  t.deepEqual(twice, [], 'a path stands twice in one sentence or row');
});

test('both sides use every file of shared', (t) => {
  const shared = pathsOf(files.filter(({ path }) => sideOf(path) === 'shared' && !startedAsThreads.includes(path)));
  t.true(shared.length > 80);
  for (const side of ['ingress', 'workers']) {
    const used = reachableFrom(files, pathsOf(files.filter(({ path }) => sideOf(path) === side)));
    t.deepEqual(
      shared.filter((path) => !used.has(path)),
      [],
      `not used by ${side}`,
    );
  }
});

/** Started by URL, so no file imports them. */
const startedAsThreads = ['shared/plan-file/parse-thread.ts', 'shared/store/sqlite/checkpoint-thread.ts'];

test('errors are written to HTTP in one place per listener', (t) => {
  const writers = pathsOf(files.filter(({ text }) => /\berrorBody\b/.test(text)));
  t.deepEqual(writers.sort(), [
    'ingress/middleware/answer-errors.ts',
    'shared/errors.ts', // the definition
    'shared/process/operations.ts',
  ]);
});

test('every queued request was admitted: the router lets only routes of endpoints reach a queue, after the stage that charges', (t) => {
  const queuing = files.filter(({ path, text }) => sideOf(path) === 'ingress' && /\bqueues\s*\.add\(/.test(text));
  t.deepEqual(pathsOf(queuing), ['ingress/replies/answer-call.ts']);
  const calling = files.filter(({ text }) => /\banswerCall\(/.test(text.replaceAll('function answerCall(', '')));
  t.deepEqual(pathsOf(calling), ['ingress/routes/inference.ts']);
  t.true(inferenceRoutes.every(({ endpoint }) => endpoint !== undefined));
  const router = files.find(({ path }) => path === 'ingress/router.ts')?.text ?? '';
  t.regex(router, /\.\.\.stages\.admission,\s*last,?\s*\]/);
  t.regex(router, /admission: \[[^\]]*\badmitRequest\(/);
  const openers = files.filter(({ text }) => /\bnew Queue\(|\.addBulk\(/.test(text));
  t.deepEqual(pathsOf(openers), ['shared/jobs/queues.ts']);
  const fillers = files.filter(({ text }) => /\.add\(jobName\b/.test(text));
  t.deepEqual(pathsOf(fillers).sort(), ['ingress/queue/queue-turns.ts', 'workers/batches/lines/line-queue.ts']);
});

test('the public listener does not import the queue dashboard', (t) => {
  const [dashboard, board] = ['ingress/queue/queue-dashboard.ts', 'ingress/queue/queue-board.ts'];
  const reached = reachableFrom(files, ['ingress/app.ts']);
  t.false(reached.has(dashboard) || reached.has(board));
  t.deepEqual(pathsOf(files.filter(({ text }) => /from '@bull-board\//.test(text))), [board]);
});

/** Their last letters are those of a participle or a gerund. */
const nouns = ['Finding', 'Framing', 'Pricing', 'Seed', 'Tracing'];
const irregular = 'begun|bound|came|cut|done|found|gone|held|kept|known|left|lost|made|meant|paid|said|sent|shown|told';
const participle = new RegExp(`(ed|en|ing)$|^(un)?(${irregular})$`, 'i');
const isParticiple = (name: string) => /^[A-Z][a-z]+$/.test(name) && participle.test(name) && !nouns.includes(name);

test('no type is named by a participle or a gerund alone', (t) => {
  for (const wrong of ['Asked', 'Given', 'Waiting', 'Found', 'Unlisted', 'Unknown']) t.true(isParticiple(wrong));
  for (const right of ['Settlement', 'KeptSum', 'RequestEnd', 'Seed', 'Unit']) t.false(isParticiple(right));
  const types = files.flatMap(({ path, text }) =>
    [...text.matchAll(/^\s*(?:export )?(?:type|interface) (\w+)/gm)].map(([, name = '']) => ({ path, name })),
  );
  t.true(types.length > 1_000);
  t.deepEqual(
    types.filter(({ name }) => isParticiple(name)),
    [],
  );
});

test('no file of production code is longer than 400 lines', (t) => {
  const long = files.filter(({ text }) => text.trimEnd().split('\n').length > 400);
  t.deepEqual(pathsOf(long), []);
});

test('only the store of a database uses its driver', (t) => {
  for (const driver of ['mongodb', 'node:sqlite', 'better-sqlite3']) {
    const using = files.filter(({ text }) => text.includes(`from '${driver}'`));
    const outside = pathsOf(using).filter((path) => !/^shared\/store\/(mongo|sqlite)\//.test(path));
    t.deepEqual(outside, [], driver);
  }
});

test('no script builds a key: a cluster must know each key before it runs a script', (t) => {
  const scripts = projectFiles().filter((path) => path.endsWith('.lua'));
  t.true(scripts.length > 10);
  const builds = (text: string) => /svc:|\{p/.test(text.replace(/^--.*$/gm, ''));
  t.true(builds("redis.call('GET', 'svc:a')"));
  t.deepEqual(
    scripts.filter((path) => builds(readFileSync(path, 'utf8'))),
    [],
  );
});

test('no script counts positions: a list beside the call names its keys and arguments', (t) => {
  const scripts = projectFiles().filter((path) => /^(ingress|workers|shared)\/.*\.lua$/.test(path));
  const positions = /\b(KEYS|ARGV)\b/;
  t.regex('local key = KEYS[1]', positions);
  t.deepEqual(
    scripts.filter((path) => positions.test(readFileSync(path, 'utf8'))),
    [],
  );
});

test('one part of the scripts knows how a lease is written', (t) => {
  const packing = projectFiles().filter(
    (path) =>
      /^(ingress|workers|shared)\/.*\.(lua|ts)$/.test(path) && /cmsgpack|msgpack/.test(readFileSync(path, 'utf8')),
  );
  t.deepEqual(packing, ['shared/limits/parts/lease.lua']);
});

test('no file is a barrel or a catch-all', (t) => {
  const drawer = /(^|\/)(index\.[cm]?[jt]s|(utils?|helpers?|lib|common|services?|types)(\.[cm]?[jt]s|\/))/;
  t.regex('shared/utils.ts', drawer);
  t.regex('workers/helpers/a.ts', drawer);
  t.deepEqual(
    projectFiles().filter((path) => drawer.test(path)),
    [],
  );
});

test('a cache has a bound, and no list of a module grows', (t) => {
  const files = productionFiles().filter(({ path }) => !/^ingress\/(console|documentation\/browser)\//.test(path));
  const created = files.flatMap(({ path, text }) =>
    [...text.matchAll(/new LRUCache<[\s\S]*?\(([\s\S]*?)\);/g)].map(([, options = '']) => ({ path, options })),
  );
  t.true(created.length >= 5);
  for (const { path, options } of created) t.regex(options, /\bmax: \w+/, path);

  for (const { path, text } of files) {
    // What a module creates when it is imported lives as long as the process.
    for (const [, name] of text.matchAll(/^(?:export )?const (\w+)(?:: [^=]+)? = new (?:Map|Set)\b/gm)) {
      t.notRegex(text, new RegExp(`\\b${name}\\.(set|add)\\(`), path);
    }
  }
});

test('the top of the repository contains only the expected entries, and dotfiles', (t) => {
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
