import type { ExecutionContext } from 'ava';
import type { ClusterNode } from '../../stack/redis-cluster.ts';
import type { Witnesses } from '../truth/open-witnesses.ts';
import { percentile, type TimedRequest } from './cluster-load.ts';
import type { See } from './fault-test.ts';

/** When a fault began and when its cause was removed, by `performance.now()`. `node`: the one that was unavailable. */
export type Disturbance = { from: number; to: number; node: ClusterNode };

/** The ratio of times is reported, and bounds only what noise does not explain. */
const slowerMax = 10;
const leastMs = 500;

/** Requires that requests that did not need the node were answered, about as fast as before. */
export function judgeOthers(t: ExecutionContext, see: See, timed: readonly TimedRequest[], fault: Disturbance): void {
  const others = timed.filter(({ nodes }) => !nodes.includes(fault.node));
  const before = others.filter(({ beganAt, ms }) => beganAt + ms < fault.from);
  const during = others.filter(({ beganAt, ms }) => beganAt + ms >= fault.from && beganAt <= fault.to);
  t.true(before.length > 50 && during.length > 20, `${before.length} before, ${during.length} during the fault`);
  t.deepEqual(during.filter(isFailed).map(describe), [], 'requests on other nodes are answered');
  const [p99Before, p99During] = [percentile(before, 0.99), percentile(during, 0.99)];
  const times = `p99 ${p99Before.toFixed(0)} ms, during the fault ${p99During.toFixed(0)} ms`;
  see(`requests on other nodes: ${during.length}, none failed; ${times}`);
  t.true(p99During < Math.max(leastMs, slowerMax * p99Before));
  t.true(timed.length - others.length > 20, 'requests need the node');
}

type Judged = { timed: readonly TimedRequest[]; witnesses: Witnesses; fault: Pick<Disturbance, 'from' | 'to'> };

/** Requires that all requests are answered again after the last failure, and that every count agrees. */
export async function judgeAll(t: ExecutionContext, see: See, { timed, witnesses, fault }: Judged): Promise<void> {
  const failed = timed.filter(isFailed);
  const slowest = Math.max(0, ...failed.map(({ ms }) => ms));
  see(`${failed.length} of ${timed.length} requests failed; the slowest failure took ${slowest.toFixed(0)} ms`);
  const last = Math.max(fault.from, ...failed.map(({ beganAt, ms }) => beganAt + ms));
  see(`the last failure was ${((last - fault.to) / 1_000).toFixed(1)} s after the cause was removed`);
  const after = timed.filter(({ beganAt }) => beganAt > Math.max(last, fault.to));
  t.true(after.length > 20 && !after.some(isFailed), 'all are answered again');

  const asked = timed.map((one) => one.asked);
  const { records, contradictions } = await witnesses.agreeOn(t, asked);
  see(`${asked.length} requests, ${records.size} records, ${contradictions.length} contradictions`);
}

function isFailed({ asked: { ending } }: TimedRequest): boolean {
  return ending !== 'answered';
}

function describe({ asked, ms }: TimedRequest): string {
  return `${asked.ending} ${'code' in asked ? asked.code : ''} after ${ms.toFixed(0)} ms: ${asked.question}`;
}
