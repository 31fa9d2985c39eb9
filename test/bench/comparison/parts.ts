import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { measureIdle } from '../costs/idle.ts';
import { measureScripts } from '../costs/scripts.ts';
import { measureShares } from '../costs/shares.ts';
import { measureTakeover } from '../costs/takeover.ts';
import { measureFleet } from '../fleet.ts';
import { startModelServer } from '../gateways/places.ts';
import { reportCosts, reportFleet, reportIdle } from '../report.ts';
import { findTruth } from '../truth/find-truth.ts';
import { wrongIn } from './bars.ts';
import { compare } from './compare.ts';
import { type KeepOptions, keepResults } from './keep-results.ts';
import { isOurs } from './rows.ts';
import { printBars, printTables, printTruth } from './tables.ts';
import { peersNotMeasured } from './worth-writing.ts';

type Options = {
  rounds: number;
  seconds: number;
  keeping: KeepOptions;
  /** A folder that keeps the installed peers. Default: they are installed for this run. */
  peers: string | undefined;
  withPeers: boolean;
};

/** Exit codes. `wrong`: usage was over-admitted, lost or counted twice, or this service could not be measured. */
const [wellDone, wrong, notWritten] = [0, 1, 2];
export const unwritten: KeepOptions = { folder: '.bench', intoPage: false };

/** Runs the comparison. Resolves with the exit code. */
export async function runPeers(options: Options): Promise<number> {
  await using place = await openPlace(options.peers);
  const { rounds, seconds, keeping } = options;
  const found = { ...(await compare({ ...options, ...place })), rounds, seconds };
  const missing = keeping.intoPage ? peersNotMeasured(found) : undefined;
  const results = await keepResults(missing === undefined ? keeping : unwritten, { part: 'peers', found });
  printTables(results);
  printBars(results);
  if (missing !== undefined) sayUnwritten(missing);
  if ((wrongIn(results) ?? 0) > 0) return wrong;
  return missing === undefined ? wellDone : notWritten;
}

/** Tests the limits of each gateway. Resolves with the exit code. */
export async function runTruth({ keeping, peers, withPeers }: Options): Promise<number> {
  await using place = await openPlace(peers);
  const { truth, failed } = await findTruth({ ...place, withPeers });
  const isToBeKept = failed.length === 0 || !keeping.intoPage;
  printTruth(await keepResults(isToBeKept ? keeping : unwritten, { part: 'truth', found: { truth } }));
  if (!isToBeKept) sayUnwritten(`${failed.join(', ')} could not be asked`);
  if (failed.some(isOurs)) return wrong;
  return isToBeKept ? wellDone : notWritten;
}

/** Measures what this service costs outside its requests. `against` is another version, of which only the idle cost is printed. */
export async function runCosts({
  keeping,
  seconds,
  against,
}: Options & { against: string | undefined }): Promise<void> {
  await using place = await openPlace(undefined);
  const measured = { ...place, seconds: 4 * seconds };
  if (against !== undefined) {
    reportIdle('the other version', await measureIdle({ ...measured, name: 'other', root: against }));
  }
  const idle = await measureIdle({ ...measured, name: 'this' });
  reportIdle('this version', idle);
  const shares = await measureShares(place, { seconds: 4 * seconds });
  const costs = { idle, scripts: await measureScripts(), takeoverMs: await measureTakeover(), shares };
  const results = await keepResults(keeping, { part: 'costs', found: { costs } });
  reportCosts(costs);
  printBars(results);
}

/** Measures the commands that Redis carries out for one worker and for many. */
export async function runFleet({ keeping, seconds }: Options): Promise<void> {
  const fleet = await measureFleet({ seconds: 2 * seconds });
  await keepResults(keeping, { part: 'fleet', found: { fleet } });
  reportFleet(fleet);
}

export function sayUnwritten(why: string): void {
  console.error(`NOT WRITTEN: ${why}; the figures are in ${unwritten.folder}`);
}

/** The place where rows are started, with the model server that they call. */
export async function openPlace(peers: string | undefined) {
  await using parts = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), 'inference-bench-'));
  parts.defer(() => rm(directory, { recursive: true, force: true }));
  const modelServer = parts.use(await startModelServer(directory));
  const owned = parts.move();
  return {
    ...{ directory, modelServer, peers: peers ?? join(directory, 'peers') },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
