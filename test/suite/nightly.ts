import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { clusterFiles } from './cluster-files.ts';
import { filesOfKind, folderWith, type RedisKind, redisKinds } from './redis-kinds.ts';
import { type Outcome, runFiles } from './run-files.ts';
import { root, sizedFiles, testFiles } from './test-files.ts';

/** `kind`: the server in place of Redis. */
type Part = { what: string; files: () => string[]; onCluster?: () => string[]; size?: string; kind?: RedisKind };
type Passed = Record<string, { passed: number; seconds: number }>;
type Wishes = { parts: readonly string[]; again: boolean; list: boolean };

const below = (folders: RegExp) => () =>
  testFiles('nightly').filter((path) => folders.test(path) && !path.includes('-mongodb.'));
const tools = /^test\/(bench|bytes|fuzz|meter|release|soak|stack|suite|support)\//;
/** Those of the other parts; the part `units` has the rest. */
const folders =
  /^test\/(attacks|bench|bytes|chart|clients|console|containers|engine|faults|flows|fuzz|meter|proxies|release|soak|stack|suite|support)\//;

/** Each nightly file is in one part. */
const parts: Record<string, Part> = {
  units: {
    what: 'tests of single modules, which wait or compute for long',
    files: () => below(/^test\//)().filter((path) => !folders.test(path)),
  },
  console: { what: 'the console in a browser, and its accessibility', files: below(/^test\/console\//) },
  flows: {
    what: 'the whole service: examples of the documentation, npm start, restores',
    files: below(/^test\/flows\//),
  },
  mongodb: {
    what: 'flows and faults on MongoDB',
    files: () => testFiles('nightly').filter((path) => path.includes('-mongodb.')),
  },
  cluster: { what: 'flows on a Redis Cluster', files: () => [], onCluster: () => clusterFiles('nightly') },
  ...Object.fromEntries(redisKinds.map((kind) => [partOf(kind), kindPart(kind)])),
  faults: {
    what: 'long faults, those of every endpoint, and accounts at all their limits',
    files: below(/^test\/(attacks|faults)\//),
  },
  clients: { what: 'SDKs, libraries and agents as installed', files: below(/^test\/clients\//) },
  chart: {
    what: 'the Helm chart: its output, and the schemas of Kubernetes and operators',
    files: below(/^test\/chart\//),
  },
  proxies: {
    what: 'each proxy of its page in front of two ingresses that restart',
    files: below(/^test\/proxies\//),
  },
  containers: { what: 'docker-compose.yml on a Docker engine', files: below(/^test\/containers\//) },
  engine: { what: 'a real engine that restarts under load', files: below(/^test\/engine\//) },
  tools: { what: 'what tests, benchmarks and fuzzing are made of, and 10 s of each fuzz target', files: below(tools) },
  sized: { what: 'random and repeated cases at their full size', files: () => sizedFiles('full'), size: '1' },
};

function partOf({ name }: RedisKind): string {
  return name.toLowerCase().replace(/ (\d+).*/, '$1');
}

function kindPart(kind: RedisKind): Part {
  const { files, onCluster } = filesOfKind(kind);
  const what = `${kind.name} in place of Redis, also as a cluster: rights, limits, and what survives killed processes`;
  return { what, files: () => files, onCluster: () => onCluster, kind };
}

const stateFile = join(root, 'node_modules/.cache/nightly.json');

/** Runs the given parts, or all. Parts that have passed with the same code are not run again unless that is wanted. */
export async function runNightly({ parts: wanted, again, list }: Wishes): Promise<Outcome> {
  const unknown = wanted.filter((name) => !(name in parts));
  if (unknown.length > 0 || list) {
    const lines = Object.entries(parts).map(([name, { what }]) => `${name.padEnd(10)} ${what}`);
    console.error([...unknown.map((name) => `There is no part ${name}.`), ...lines].join('\n'));
    return { code: list ? 0 : 2, passed: 0, failed: 0 };
  }
  const code = codeHash();
  const passed: Passed = again ? {} : readState(code);
  const total: Outcome = { code: 0, passed: 0, failed: 0 };
  for (const name of wanted.length > 0 ? wanted : Object.keys(parts)) {
    const before = wanted.length === 0 ? passed[name] : undefined;
    const outcome = before ? { code: 0, passed: before.passed, failed: 0 } : await runPart(name, passed);
    console.log(`\n${name}: ${outcome.passed} passed, ${outcome.failed} failed, ${passed[name]?.seconds ?? '?'} s\n`);
    total.passed += outcome.passed;
    total.failed += outcome.failed;
    if (outcome.code !== 0) total.code = outcome.code;
    writeState(code, passed);
  }
  console.log(`${total.passed} passed, ${total.failed} failed`);
  return total;
}

async function runPart(name: string, passed: Passed): Promise<Outcome> {
  const part = parts[name];
  if (part === undefined) throw new Error(`there is no part ${name}`);
  console.log(`\n${name}: ${part.what}`);
  delete passed[name];
  const begunMs = performance.now();
  await using server = part.kind && (await folderWith(part.kind));
  const outcome = await runFiles(part.files(), {
    ...{ size: part.size ?? 'small', onCluster: part.onCluster?.() ?? [] },
    ...(server && { programs: server.path }),
  });
  const seconds = Math.round((performance.now() - begunMs) / 1_000);
  if (outcome.code === 0) passed[name] = { passed: outcome.passed, seconds };
  return outcome;
}

/** Of the commit and of what has changed since. */
function codeHash(): string {
  const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 28 });
  const others = git('ls-files', '--others', '--exclude-standard')
    .split('\n')
    .filter((path) => path !== '');
  const hash = createHash('sha256').update(git('rev-parse', 'HEAD')).update(git('diff', 'HEAD'));
  for (const path of others) hash.update(path).update(readFileSync(join(root, path)));
  return hash.digest('hex');
}

function readState(code: string): Passed {
  try {
    const state = JSON.parse(readFileSync(stateFile, 'utf8')) as { code: string; passed: Passed }; // our own file
    return state.code === code ? state.passed : {};
  } catch {
    return {}; // there is none yet
  }
}

function writeState(code: string, passed: Passed): void {
  mkdirSync(join(stateFile, '..'), { recursive: true });
  writeFileSync(stateFile, JSON.stringify({ code, passed }));
}
