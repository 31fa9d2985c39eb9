import { compare } from '../comparison/compare.ts';
import { type KeepOptions, keepResults } from '../comparison/keep-results.ts';
import { openPlace, sayUnwritten, unwritten } from '../comparison/parts.ts';
import type { ClusterResults } from '../comparison/results.ts';
import type { Row } from '../comparison/rows.ts';
import { reportCluster } from '../comparison/tables.ts';
import { serviceRow } from '../gateways/start-service.ts';
import type { Load } from '../loads/load.ts';
import { findTruthOf } from '../truth/find-truth.ts';
import { serviceSubject } from '../truth/subjects.ts';

const cluster = 'three masters';

/** Their queues are on all three masters. The first one is that of every stack. */
export const clusterModels = ['small-chat', 'chat-a', 'chat-c', 'chat-d'] as const;

const furtherModels = Object.fromEntries(
  clusterModels.slice(1).map((model) => [model, { tier: 'guest', pool: 'default' }]),
);

export const clusterRows: readonly Row[] = ['one Redis', cluster].map((name) => ({
  name,
  does: 'one ingress, one worker',
  start: (place) =>
    serviceRow({
      ...{ ...place, models: furtherModels, isCluster: name === cluster },
      name: name.replaceAll(' ', '-'),
    }),
}));

export const clusterLoads: readonly Load[] = [
  { name: '1 model', kind: 'many', clients: 64, fields: {} },
  { name: '4 models', kind: 'many', clients: 64, fields: {}, models: clusterModels },
];

type Options = { rounds: number; seconds: number; keeping: KeepOptions };

/** Measures this service with one Redis and with a cluster, in turns, and tests its limits on a cluster. Resolves with the exit code. */
export async function runCluster({ rounds, seconds, keeping }: Options): Promise<number> {
  await using place = await openPlace(undefined);
  const measured = { ...place, rows: clusterRows, loads: clusterLoads, rounds, seconds };
  const { runs, warmUps, warnings } = await compare({ ...measured, withPeers: false });
  const { truth, failed } = await findTruthOf(cluster, () =>
    serviceSubject({ ...place, name: cluster, isCluster: true }),
  );
  const isToBeKept = failed.length === 0 || !keeping.intoPage;
  const found: ClusterResults = { rounds, seconds, warnings, runs, warmUps, truth };
  reportCluster(await keepResults(isToBeKept ? keeping : unwritten, { part: 'cluster', found: { cluster: found } }));
  if (!isToBeKept) sayUnwritten('the limits could not be tested');
  const books = [...runs, ...warmUps].flatMap((run) => Object.values(run.books ?? {}));
  return failed.length > 0 || books.some((count) => count > 0) ? 1 : 0;
}
