import { readFile, writeFile } from 'node:fs/promises';
import { declaredFaults, isMeant } from './declared-faults.ts';
import type { Told } from './tell-faults.ts';

/** A part that is away, and what clients see of it; `shownBy`: the faults of the list that show it. */
type Row = { away: string; newRequests: string; inFlight: string; shownBy: readonly string[] };

/**
 * What the README says of what fails: each claim is one that those tests assert. Its times are those of a machine that has
 * processors to spare; the tests allow for a slow one, which the README says beside the table.
 */
export const whenDown: readonly Row[] = [
  {
    away: 'a worker, killed',
    newRequests: 'other workers take them',
    inFlight: 'not streaming yet: run again by another within 15 s; streaming: error frame',
    shownBy: ['1', '2', '3'],
  },
  {
    away: 'all workers',
    newRequests: '503 `SERVICE_UNAVAILABLE` after `queue_ms`',
    inFlight: 'the same',
    shownBy: ['19a'],
  },
  {
    away: "room in a model's queue, or for waiting bodies",
    newRequests:
      'of that model, or of all: 503 `SERVICE_UNAVAILABLE` at once, nothing charged, `Retry-After` spread over 1 to 5 s',
    inFlight: 'unaffected',
    shownBy: ['18f', '18g'],
  },
  {
    away: 'an ingress, killed',
    newRequests: 'go to another',
    inFlight: 'lost with their connections; their calls end with the next text, or about a minute later',
    shownBy: ['5'],
  },
  {
    away: 'Redis',
    newRequests: '503 `SERVICE_UNAVAILABLE` within a second or two, never a hang',
    inFlight: 'up to six seconds: go on when it is back; longer: run again, 503, or an error frame, charged once',
    shownBy: ['8', '9'],
  },
  {
    away: 'Redis, its replica promoted in its place',
    newRequests: '503 `SERVICE_UNAVAILABLE` until that writes',
    inFlight: 'whole: go on; streaming: go on, or error frame',
    shownBy: ['13'],
  },
  {
    away: 'Redis, out of memory',
    newRequests: 'inference: 503 `SERVICE_UNAVAILABLE` at once; keys: minted, rotated and revoked as ever',
    inFlight: 'answered',
    shownBy: ['11'],
  },
  {
    away: 'Redis, emptied',
    newRequests:
      "inference: 503 for up to 5 s; keys: unaffected, callers are read from the store again; each account's month is counted again from the store and the outbox before its next request is let in",
    inFlight: '503, or an error frame; their jobs are lost, what was delivered is charged once',
    shownBy: ['12'],
  },
  {
    away: 'the store',
    newRequests:
      'callers known to the ingress: unaffected; other keys, key management, and accounts whose month Redis does not count: 503, never 401',
    inFlight: 'unaffected; usage waits in Redis',
    shownBy: ['14', '15'],
  },
  {
    away: 'the identity provider',
    newRequests: 'keys: unaffected; tokens signed with a known key: unaffected for a day; others: 503 within 2 s',
    inFlight: 'unaffected',
    shownBy: ['22'],
  },
  {
    away: 'a backend',
    newRequests: 'the next one of the model',
    inFlight:
      'whole: the next one; streaming: before the first token the next one, after it error frame `UPSTREAM_INTERRUPTED`',
    shownBy: ['17a', '17b', '17e'],
  },
  {
    away: 'a backend that takes a call and says nothing',
    newRequests:
      'the next one after `first_token_ms`; a whole answer that cannot be asked for as a stream: 504 at `request_ms`',
    inFlight: 'whole, not sent yet: the next one after `idle_ms`; streaming: error frame after `idle_ms`',
    shownBy: ['17a', '17b'],
  },
  {
    away: 'all backends of a model',
    newRequests: '503 `UPSTREAMS_EXHAUSTED` with those that were tried, at once when their breakers are open',
    inFlight: 'the same',
    shownBy: ['18a', '18b', '18d'],
  },
  {
    away: "a worker that looks after an account's batches, killed",
    newRequests: 'files and batches: unaffected',
    inFlight: 'its lines: by another worker within 15 s; its batches: looked after by another within 10 s',
    shownBy: ['B1', 'B2', 'B5'],
  },
  {
    away: 'all backends of a model, for batches',
    newRequests: 'handed in as ever',
    inFlight: 'lines wait, and go on by themselves when a backend returns',
    shownBy: ['B4'],
  },
  {
    away: 'the store, for files and batches',
    newRequests: '503',
    inFlight: 'lines that run keep their answers until it is back; no line is begun; windows end when it is back',
    shownBy: ['B1', 'B2', 'B6'],
  },
  {
    away: 'Redis, for batches',
    newRequests: '503',
    inFlight: 'lines go on by themselves when it is back, each charged once',
    shownBy: ['B3'],
  },
  {
    away: 'all backends of a model are full',
    newRequests: 'wait in its queue until `queue_ms`; requests for other models are unaffected',
    inFlight: 'unaffected',
    shownBy: ['18e'],
  },
  {
    away: 'workers, while a backend is full',
    newRequests: 'wait; the backend never has more than `requests_at_once`, however workers come, go and are killed',
    inFlight: 'as of a worker that is killed',
    shownBy: ['26a', '26b'],
  },
  {
    away: 'Redis, while a backend is full',
    newRequests:
      'as without Redis; the backend never has more than `requests_at_once`, and all of that again within seconds',
    inFlight: 'as when Redis is away',
    shownBy: ['26c'],
  },
  {
    away: 'a worker, frozen, while a backend is full',
    newRequests:
      'other workers take them; the backend may have the calls of the frozen worker beside `requests_at_once`',
    inFlight: 'end when it goes on',
    shownBy: ['26d'],
  },
  {
    away: 'every ingress and every worker, killed',
    newRequests: 'wait for a start; what was held is free within 75 s, once a worker runs',
    inFlight: 'lost with their connections, charged nothing, recorded as `lost`',
    shownBy: ['25a'],
  },
  {
    away: 'the right time, on an ingress or a worker',
    newRequests:
      "keys: unaffected, limits and deadlines go by Redis's clock; sign-in tokens are judged by the ingress's own",
    inFlight: 'unaffected',
    shownBy: ['20'],
  },
];

export function tableOf(rows: readonly Row[]): string {
  return [
    '| away | new requests | requests in flight | shown by |',
    '|---|---|---|---|',
    ...rows.map(
      ({ away, newRequests, inFlight, shownBy }) =>
        `| ${away} | ${newRequests} | ${inFlight} | ${shownBy.join(', ')} |`,
    ),
  ].join('\n');
}

const [begin, end] = ['<!-- from npm run faults -->', '<!-- to here -->'];

/** What stands between the two marks now; undefined where they are not there. */
export function tableIn(readme: string): string | undefined {
  const [, rest = ''] = readme.split(`${begin}\n`);
  return rest.includes(`\n${end}`) ? rest.slice(0, rest.indexOf(`\n${end}`)) : undefined;
}

/** Every fault that a row means and that has not held here, and every number or letter that means none. */
export function notShown(
  rows: readonly Pick<Row, 'shownBy'>[],
  { told, declared }: { told: readonly Pick<Told, 'id' | 'verdict'>[]; declared: readonly string[] },
): string[] {
  const shown = new Set(told.filter(({ verdict }) => verdict === 'ok').map(({ id }) => id));
  const wanted = rows
    .flatMap(({ shownBy }) => shownBy)
    .flatMap((wish) => {
      const meant = declared.filter((id) => isMeant(id, wish));
      return meant.length === 0 ? [wish] : meant;
    });
  return [...new Set(wanted)].filter((id) => !shown.has(id));
}

/** Writes the table from what these have shown; throws where they have not shown all of it. */
export async function writeReadme(told: readonly Told[]): Promise<string> {
  const declared = declaredFaults().map(({ id }) => id);
  const missing = notShown(whenDown, { told, declared });
  if (missing.length > 0) throw new Error(`the README is left as it is: not shown are ${missing.join(', ')}`);
  const file = new URL('../../../README.md', import.meta.url);
  const readme = await readFile(file, 'utf8');
  const table = tableIn(readme);
  if (table === undefined) throw new Error(`the README has no marks ${begin} and ${end}`);
  await writeFile(
    file,
    readme.replace(table, () => tableOf(whenDown)),
  );
  return 'The README has the table of what fails.';
}
