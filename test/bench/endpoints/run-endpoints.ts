import { compare } from '../comparison/compare.ts';
import { type KeepOptions, keepResults } from '../comparison/keep-results.ts';
import { openPlace } from '../comparison/parts.ts';
import type { Row } from '../comparison/rows.ts';
import { reportEndpoints } from '../comparison/tables.ts';
import type { GatewayRequest } from '../gateways/gateway.ts';
import { serviceRow } from '../gateways/start-service.ts';
import type { Load } from '../loads/load.ts';

const models = { 'small-embed': { tier: 'guest', pool: 'default', endpoints: ['embeddings'] } };
const embedding: GatewayRequest = {
  path: '/v1/embeddings',
  fields: { model: 'small-embed', input: 'Hello', encoding_format: 'base64' },
};

export const endpointRows: readonly Row[] = [
  {
    name: 'chat completions',
    does: 'a whole answer of five tokens',
    start: (place) => serviceRow({ ...place, name: 'chat' }),
  },
  {
    name: 'embeddings',
    does: 'a vector of 1,024 numbers',
    start: (place) => serviceRow({ ...place, name: 'embeddings', models, asked: embedding }),
  },
];

export const endpointLoads: readonly Load[] = [{ name: '64 clients', kind: 'many', clients: 64, fields: {} }];

type Options = { rounds: number; seconds: number; keeping: KeepOptions };

/** Measures this service at different endpoints, in turns. Resolves with the exit code. */
export async function runEndpoints({ rounds, seconds, keeping }: Options): Promise<number> {
  await using place = await openPlace(undefined);
  const measured = { ...place, rows: endpointRows, loads: endpointLoads, rounds, seconds };
  const { runs, warmUps, warnings } = await compare({ ...measured, withPeers: false });
  const found = { rounds, seconds, warnings, runs, warmUps };
  reportEndpoints(await keepResults(keeping, { part: 'endpoints', found: { endpoints: found } }));
  const books = [...runs, ...warmUps].flatMap((run) => Object.values(run.books ?? {}));
  return books.some((count) => count > 0) ? 1 : 0;
}
