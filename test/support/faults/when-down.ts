import { readFile, writeFile } from 'node:fs/promises';
import { declaredFaults, isMeant } from './declared-faults.ts';
import type { FaultResult } from './describe-faults.ts';

/** An unavailable part, and its effect on clients; `shownBy`: the faults that show it. */
type Row = { unavailable: string; newRequests: string; inFlight: string; shownBy: readonly string[] };

/**
 * The table of `failures.md`. The tests assert each claim. The times are those of a machine with free processors; the tests
 * allow more for a slow one, which the page says below the table.
 */
export const whenDown: readonly Row[] = [
  {
    unavailable: 'a worker, killed',
    newRequests: 'other workers take them',
    inFlight: 'no text sent yet: another worker runs them again within 15 s; streaming: error frame',
    shownBy: ['1', '2', '3'],
  },
  {
    unavailable: 'all workers',
    newRequests: '503 `SERVICE_UNAVAILABLE` after `queue_ms`',
    inFlight: 'the same',
    shownBy: ['19a'],
  },
  {
    unavailable: "room in a model's queue, or for waiting payloads",
    newRequests:
      'for that model, or for all: 503 `SERVICE_UNAVAILABLE` at once, nothing charged, `Retry-After` spread over 1 to 5 s',
    inFlight: 'unaffected',
    shownBy: ['18f', '18g'],
  },
  {
    unavailable: 'an ingress, killed',
    newRequests: 'go to another',
    inFlight: 'lost with their connections; their calls to backends end at the next text, or about a minute later',
    shownBy: ['5'],
  },
  {
    unavailable: 'Redis',
    newRequests: '503 `SERVICE_UNAVAILABLE` within a second or two, never a hang',
    inFlight: 'up to six seconds: continue when it is back; longer: run again, 503, or an error frame; charged once',
    shownBy: ['8', '9'],
  },
  {
    unavailable: 'Redis, replaced by its replica',
    newRequests: '503 `SERVICE_UNAVAILABLE` until the replica accepts writes',
    inFlight: 'not streamed: continue; streamed: continue, or error frame',
    shownBy: ['13'],
  },
  {
    unavailable: 'a master of a Redis Cluster or behind Sentinel, replaced by its replica',
    newRequests:
      'those that need it: wait, or 503 `SERVICE_UNAVAILABLE` within a second or two, until the replica is master; others: unaffected',
    inFlight: 'continue when the replica is master',
    shownBy: ['27a', '27c', '27g'],
  },
  {
    unavailable: 'a master of a Redis Cluster without a replica',
    newRequests:
      'those that need it: 503 `SERVICE_UNAVAILABLE` within a second or two; others: unaffected, except that an ingress whose reply stream it has refuses all for up to 4 s',
    inFlight:
      'not started: 503 within 5 s; started: continue when it is back; replies through it: 503 or an error frame within 5 s',
    shownBy: ['27b', '27f'],
  },
  {
    unavailable: 'a slot of a Redis Cluster, while it moves',
    newRequests: 'those that need it: wait for up to 4 s, then 503 `SERVICE_UNAVAILABLE`; others: unaffected',
    inFlight: 'continue when it has moved',
    shownBy: ['27d', '27e'],
  },
  {
    unavailable: 'Redis, out of memory',
    newRequests:
      'inference: 503 `SERVICE_UNAVAILABLE` at once; keys: created, rotated and revoked as usual; `/readyz` of every process: 503',
    inFlight: 'answered',
    shownBy: ['11'],
  },
  {
    unavailable: 'Redis, emptied',
    newRequests:
      "inference: 503 for up to 5 s; keys: unaffected, callers are read from the store again; each account's month is counted again from the store and the outbox before its next request is admitted",
    inFlight: '503, or an error frame; their jobs are lost; what was delivered is charged once',
    shownBy: ['12'],
  },
  {
    unavailable: 'the store',
    newRequests:
      'callers that the ingress knows: unaffected; other keys, key management, and accounts whose month Redis does not count: 503, never 401',
    inFlight: 'unaffected; usage waits in Redis',
    shownBy: ['14', '15'],
  },
  {
    unavailable: 'the identity provider',
    newRequests: 'keys: unaffected; tokens signed with a known key: unaffected for a day; others: 503 within 2 s',
    inFlight: 'unaffected',
    shownBy: ['22'],
  },
  {
    unavailable: 'a backend',
    newRequests: 'the next one of the model',
    inFlight:
      'not streamed: the next one; streamed: before the first token the next one, after it error frame `UPSTREAM_INTERRUPTED`',
    shownBy: ['17a', '17b', '17e'],
  },
  {
    unavailable: 'a backend that accepts a call and stays silent',
    newRequests:
      'the next one after `first_token_ms`; an answer that cannot be requested as a stream: 504 at `request_ms`',
    inFlight: 'not streamed, not sent yet: the next one after `idle_ms`; streamed: error frame after `idle_ms`',
    shownBy: ['17a', '17b'],
  },
  {
    unavailable: 'a backend that is busy or loads its model',
    newRequests: 'the next one; without one they wait up to `queue_ms`, then 503; no breaker opens',
    inFlight: 'unaffected',
    shownBy: ['17n', '17u', '17v'],
  },
  {
    unavailable: 'a route or a model that a backend does not have',
    newRequests: 'the next one; without one 503, or 400 if all answer 501; no breaker opens',
    inFlight: 'unaffected',
    shownBy: ['17o'],
  },
  {
    unavailable: 'backends that the requests of one account break or silence',
    newRequests:
      'a request that breaks them: two on-prem backends, then one in a cloud, once, then 503; one on which they stay silent: the next one after `first_token_ms`; those of other accounts: answered, and no breaker opens',
    inFlight: 'as when a backend is away',
    shownBy: ['17p', '17q', '17r', '17s', '17t'],
  },
  {
    unavailable: 'all backends of a model',
    newRequests: '503 `UPSTREAMS_EXHAUSTED` with the backends that were tried; at once if their breakers are open',
    inFlight: 'the same',
    shownBy: ['18a', '18b', '18d'],
  },
  {
    unavailable: "a worker that holds an account's batches, killed",
    newRequests: 'files and batches: unaffected',
    inFlight: 'its lines: run by another worker within 15 s; its batches: held by another worker within 10 s',
    shownBy: ['B1', 'B2', 'B5'],
  },
  {
    unavailable: 'all backends of a model, for batches',
    newRequests: 'batches: created as usual',
    inFlight: 'lines wait, and continue automatically when a backend is back',
    shownBy: ['B4'],
  },
  {
    unavailable: 'the store, for files and batches',
    newRequests: '503',
    inFlight: 'running lines keep their answers until it is back; no line starts; windows end when it is back',
    shownBy: ['B1', 'B2', 'B6'],
  },
  {
    unavailable: 'Redis, for batches',
    newRequests: '503',
    inFlight: 'lines continue automatically when it is back; each is charged once',
    shownBy: ['B3'],
  },
  {
    unavailable: 'a master of a Redis Cluster without a replica, for batches',
    newRequests: 'of accounts on it: 503; others: unaffected',
    inFlight:
      'lines of its accounts continue automatically when it is back; others run, slower if it has the control stream of the worker that queues them; each is charged once',
    shownBy: ['B7'],
  },
  {
    unavailable: 'a worker that sends events of webhooks, killed',
    newRequests: 'unaffected',
    inFlight: 'its events: sent again by another worker within about 30 s, with the same id',
    shownBy: ['28'],
  },
  {
    unavailable: 'all backends of a model are full',
    newRequests: 'wait in its queue until `queue_ms`; requests for other models are unaffected',
    inFlight: 'unaffected',
    shownBy: ['18e'],
  },
  {
    unavailable: 'workers, while a backend is full',
    newRequests:
      'wait; the backend never has more than `requests_at_once`, even while workers are started, stopped and killed',
    inFlight: 'as when a worker is killed',
    shownBy: ['26a', '26b'],
  },
  {
    unavailable: 'Redis, while a backend is full',
    newRequests:
      'as when Redis is unavailable; the backend never has more than `requests_at_once`, and has that many again after Redis is back',
    inFlight: 'as when Redis is unavailable',
    shownBy: ['26c'],
  },
  {
    unavailable: 'a worker, frozen, while a backend is full',
    newRequests:
      'other workers take them; the backend may have the calls of the frozen worker in addition to `requests_at_once`',
    inFlight: 'end when it continues',
    shownBy: ['26d'],
  },
  {
    unavailable: 'every ingress and every worker, killed',
    newRequests:
      'wait for a start; everything that was held is free within 75 s, in a cluster within 90 s, once a worker runs',
    inFlight: 'lost with their connections, charged nothing, recorded as `lost`',
    shownBy: ['25a'],
  },
  {
    unavailable: 'the correct time, on an ingress or a worker',
    newRequests:
      "keys: unaffected, because limits and deadlines use Redis's clock; sign-in tokens are checked with the ingress's clock",
    inFlight: 'unaffected',
    shownBy: ['20'],
  },
];

export function tableOf(rows: readonly Row[]): string {
  return [
    '| unavailable | new requests | requests in flight | fault |',
    '|---|---|---|---|',
    ...rows.map(
      ({ unavailable, newRequests, inFlight, shownBy }) =>
        `| ${unavailable} | ${newRequests} | ${inFlight} | ${shownBy.join(', ')} |`,
    ),
  ].join('\n');
}

/** The page with the table. */
export const pageFile = 'ingress/documentation/failures.md';

const [begin, end] = ['<!-- from npm run faults -->', '<!-- to here -->'];

/** The text between the two marks; undefined if the page does not have them. */
export function tableIn(page: string): string | undefined {
  const [, rest = ''] = page.split(`${begin}\n`);
  return rest.includes(`\n${end}`) ? rest.slice(0, rest.indexOf(`\n${end}`)) : undefined;
}

/** The faults that rows name and that were not shown here, and every number or letter that matches no fault. */
export function notShown(
  rows: readonly Pick<Row, 'shownBy'>[],
  { results, declared }: { results: readonly Pick<FaultResult, 'id' | 'verdict'>[]; declared: readonly string[] },
): string[] {
  const shown = new Set(results.filter(({ verdict }) => verdict === 'ok').map(({ id }) => id));
  const wanted = rows
    .flatMap(({ shownBy }) => shownBy)
    .flatMap((wish) => {
      const meant = declared.filter((id) => isMeant(id, wish));
      return meant.length === 0 ? [wish] : meant;
    });
  return [...new Set(wanted)].filter((id) => !shown.has(id));
}

/** Writes the table into the page if these faults have shown all of it; throws if not. */
export async function writeTable(results: readonly FaultResult[]): Promise<string> {
  const declared = declaredFaults().map(({ id }) => id);
  const missing = notShown(whenDown, { results, declared });
  if (missing.length > 0) throw new Error(`${pageFile} is unchanged: not shown are ${missing.join(', ')}`);
  const file = new URL(`../../../${pageFile}`, import.meta.url);
  const page = await readFile(file, 'utf8');
  const table = tableIn(page);
  if (table === undefined) throw new Error(`${pageFile} has no marks ${begin} and ${end}`);
  await writeFile(
    file,
    page.replace(table, () => tableOf(whenDown)),
  );
  return `${pageFile} has the table of failures.`;
}
