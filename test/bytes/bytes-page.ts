import { estimateMemory } from '../../workers/memory/estimate-memory.ts';
import type { Bytes, ItemBytes } from '../../workers/memory/item-bytes.ts';
import { parseMemoryArguments, reportOf } from '../../workers/memory/run-memory.ts';

export const pageFile = 'ingress/documentation/scaling.md';
const [begin, end] = ['<!-- from npm run bytes -->', '<!-- end of npm run bytes -->'];

type Row<Item extends string> = { item: Item; what: string; kept: string };

const inRedis: readonly Row<keyof ItemBytes['redis']>[] = [
  { item: 'account', what: 'an account: its counters', kept: '62 days after its last request' },
  { item: 'device', what: 'a device: its counters', kept: '62 days after its last request' },
  {
    item: 'limitedKey',
    what: 'a further key with limits of its own: its counters',
    kept: '2 days after its last request; 2 minutes if it has no limit of the month',
  },
  {
    item: 'activeAccount',
    what: 'an account in use: counters with their last minute, version, and the caller of its key',
    kept: 'the last minute of counters: 2 minutes after the last request; the version and the caller: up to an hour',
  },
  { item: 'waiting', what: 'a request that waits', kept: 'until a worker takes it, at most `queue_ms`' },
  { item: 'running', what: 'a request that runs', kept: 'until its end' },
  {
    item: 'lease',
    what: 'the lease of a request that waits or runs',
    kept: 'until its end; at most a minute after its worker was killed',
  },
  { item: 'furtherLease', what: 'each further lease of the same account', kept: 'the same' },
  {
    item: 'endedMark',
    what: 'the mark that a request has ended',
    kept: "an hour past the request's deadline (`request_ms` after its admission)",
  },
  {
    item: 'keptAnswer',
    what: 'the answer of a request with an idempotency key',
    kept: '10 minutes after the end of its request',
  },
  {
    item: 'usageEvent',
    what: 'a usage event in the outbox',
    kept: '10 s after it was stored; as long as the store is unavailable',
  },
  {
    item: 'lineWaiting',
    what: 'a line of a batch that waits in its queue',
    kept: 'until a worker takes it; at most 256 lines of an account',
  },
  {
    item: 'reply',
    what: 'a reply on its way to an ingress',
    kept: '0.5 s after the ingress has read it, less if 1 MiB was read',
  },
  { item: 'atRest', what: 'Redis with the scripts and without data', kept: '' },
];

const inStore: readonly Row<keyof ItemBytes['sqlite']>[] = [
  { item: 'account', what: 'an account with a key', kept: 'always' },
  { item: 'device', what: 'a device with its key', kept: '`guest_days_kept` after its last use' },
  { item: 'usageRecord', what: 'a usage record, one for each request', kept: '`usage_months_kept`' },
  {
    item: 'usageDetail',
    what: 'a usage detail, one for each account, day, model, key and endpoint',
    kept: '`usage_months_kept`',
  },
  { item: 'usageHour', what: 'the same of an hour, one for each ending of requests', kept: '62 days' },
  { item: 'usageTotal', what: 'the total of a month, one for each account', kept: '`usage_months_kept`' },
  {
    item: 'batchResult',
    what: 'the result of a line of a batch',
    kept: 'until the output file of its batch is written',
  },
  { item: 'auditRecord', what: 'an audit record, with a reason of 32 characters', kept: 'always' },
];

const example = '--accounts 10000 --requests-per-second 200 --store-away-hours 4';

/** Returns the page with these bytes between its two marks. Throws if the page has no marks. */
export function withBytes(page: string, bytes: ItemBytes): string {
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error('the page has no place for the bytes');
  return `${page.slice(0, from)}${begin}\n${linesOf(bytes).join('\n')}\n${page.slice(to)}`;
}

function linesOf(bytes: ItemBytes): string[] {
  const demand = parseMemoryArguments(example.split(' '));
  if (demand === undefined || demand === 'help') throw new Error('the example has wrong arguments');
  return [
    '| in Redis | bytes | kept |',
    '|---|---|---|',
    ...inRedis.map(({ item, what, kept }) => `| ${what} | ${sizeOf(bytes.redis[item])} | ${kept} |`),
    '',
    '| in the store | SQLite | MongoDB | kept |',
    '|---|---|---|---|',
    ...inStore.map(
      ({ item, what, kept }) =>
        `| ${what} | ${sizeOf(bytes.sqlite[item])} | ${sizeOf(bytes.mongodb[item])} | ${kept} |`,
    ),
    '',
    'The same bytes add up to what a service needs:',
    '',
    '```sh memory',
    `npm run --silent memory -- ${example}`,
    '```',
    '',
    '```text memory',
    ...reportOf(estimateMemory(demand, bytes)),
    '```',
  ];
}

function sizeOf({ bytes, perKibibyte }: Bytes): string {
  const text = shown(bytes);
  return perKibibyte === undefined ? text : `${text}, and ${shown(perKibibyte)} for each KiB`;
}

const shown = (bytes: number) => Math.round(bytes).toLocaleString('en-US');
