import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'ava';
import { questionFor } from '../gateways/gateway.ts';
import { startModelServer } from '../gateways/places.ts';
import { smgRow } from '../gateways/smg.ts';
import { generate, type Load, loads } from '../loads/load.ts';
import { compare } from './compare.ts';
import { keepResults } from './keep-results.ts';
import { resultsSchema } from './results.ts';
import { names, rows } from './rows.ts';

async function openDirectory(parts: AsyncDisposableStack) {
  const directory = await mkdtemp(join(tmpdir(), 'inference-bench-'));
  parts.defer(() => rm(directory, { recursive: true, force: true }));
  return { directory, modelServer: parts.use(await startModelServer(directory)) };
}

test('a round measures each row, this service loses, duplicates and over-admits nothing, and a peer that cannot start is reported', async (t) => {
  t.timeout(120_000);
  await using parts = new AsyncDisposableStack();
  const { directory, modelServer } = await openDirectory(parts);
  const broken = {
    ...{ name: 'a peer', does: 'nothing', isPeer: true },
    start: () => Promise.reject(new Error('it cannot be installed\n  at a place')),
  };
  const asked = [...rows.filter(({ name }) => name === names.proxy || name === names.one), broken];
  const ofLoads = loads.filter(({ name }) => name === '64 clients');
  const options = {
    directory,
    modelServer,
    peers: directory,
    rounds: 1,
    seconds: 2,
    firstWarmUpSeconds: 2,
    warmUpSeconds: 2,
    withPeers: true,
  };
  const found = await compare({ ...options, rows: asked, loads: ofLoads });

  t.deepEqual(
    found.rows.map(({ name, missing }) => [name, missing]),
    [
      [names.proxy, undefined],
      [names.one, undefined],
      ['a peer', 'Error: it cannot be installed'],
    ],
  );
  t.deepEqual(found.runs.map(({ row }) => row).sort(), [names.proxy, names.one].sort());
  for (const { row, answered, failed } of found.runs) {
    t.true(answered > 0, row);
    t.is(failed, 0, row);
  }
  const ours = found.runs.find(({ row }) => row === names.one);
  t.deepEqual(ours?.books, { overAdmitted: 0, lostUsage: 0, duplicates: 0 });
  const warmUp = { row: names.one, load: '64 clients', books: { overAdmitted: 0, lostUsage: 0, duplicates: 0 } };
  t.deepEqual(found.warmUps, [warmUp, warmUp], 'the first warm-up, and that of the load');
  t.deepEqual(Object.keys(ours?.cpuMicros ?? {}).sort(), ['ingress', 'redis', 'worker']);

  const folder = join(directory, 'results');
  const keeping = { folder, intoPage: false };
  await keepResults(keeping, {
    part: 'truth',
    found: { truth: [{ row: names.one, question: 'what', answer: 'this' }] },
  });
  await keepResults(keeping, { part: 'peers', found: { ...found, rounds: 1, seconds: options.seconds } });
  const kept = resultsSchema.parse(JSON.parse(await readFile(join(folder, 'results.json'), 'utf8')));
  t.is(kept.truth.length, 1, 'the results of another part are kept');
  t.deepEqual(Object.keys(kept.taken).sort(), ['peers', 'truth']);
  t.is(kept.runs.length, 2);
  t.regex(await readFile(join(folder, 'requests.svg'), 'utf8'), /64 clients/);
});

test('SMG passes on whole answers and streams to a client with its key, and refuses one without it', async (t) => {
  t.timeout(600_000, 'its packages may have to be installed');
  await using parts = new AsyncDisposableStack();
  const smg = parts.use(await smgRow(await openDirectory(parts)));
  const questionOf = (kind: Load['kind']) => questionFor(smg, loads.find((load) => load.kind === kind)?.fields ?? {});
  const sent = (kind: Load['kind']) => generate({ kind, clients: 2, seconds: 0.1, question: questionOf(kind) });
  const [whole, streams] = [await sent('one'), await sent('streams')];
  t.true(whole.answered > 0);
  t.is(whole.failed, 0);
  t.deepEqual([streams.answered, streams.failed], [2, 0]);
  t.true((streams.stream?.firstTokenP50Ms ?? 0) < 1_500, 'a stream does not start at its end');
  const { urls, bodies } = questionOf('one');
  const headers = { 'content-type': 'application/json' };
  const refused = await fetch(urls[0] ?? '', { method: 'POST', headers, body: bodies[0] ?? '' });
  t.is(refused.status, 401);
});
