import type { FleetView } from '../../routes/fleet.ts';
import { formatCount, formatMs } from '../page/format.ts';

type Backend = FleetView['backends'][number];
type Health = Backend['models'][number];
type Model = FleetView['pools'][number]['models'][number];

/** Something that an operator should look at. `key` stays the same while only a number in its text changes. */
type Finding = { tone: 'bad' | 'warning'; text: string; key: string };

/** A request that has waited longer than this has likely found no worker. */
const longWaitMs = 5_000;
const failedShareMax = 0.1;

/** What is wrong in the fleet, in words, worst first. Empty if all is well. */
export function findingsIn({ pools, backends, workers, ingresses }: FleetView): Finding[] {
  const found = [
    ...pools.flatMap(({ pool, workers: count }) =>
      count === 0 ? [bad(`The pool ${pool} has no worker: its requests wait, and then get 503.`)] : [],
    ),
    ...pools.flatMap(({ models }) => models.flatMap(queueOf)),
    ...modelsOf(backends).flatMap(({ model, served }) => outage(model, served)),
    ...backends.flatMap(({ backend, models }) => models.flatMap((health) => failing(backend, health))),
    ...backends.flatMap(pausesOf),
    ...backends.flatMap(fullness),
    ...pools.flatMap(({ pool, models }) =>
      models.flatMap(({ model, oldest_ms: ms }) =>
        ms > longWaitMs
          ? [warning(`A request for ${model} has waited ${formatMs(ms)} for a worker.`, `${pool} ${model} waits`)]
          : [],
      ),
    ),
    ...generationsOf([...workers, ...ingresses]),
    ...silent([...workers, ...ingresses]),
  ];
  return found.toSorted((one, other) => Number(one.tone === 'warning') - Number(other.tone === 'warning'));
}

/** From half of the room on, no account may take more than a share of it. */
function queueOf({ model, queued: { interactive }, queue_max: max }: Model): Finding[] {
  const waiting = `${formatCount(interactive)} of ${formatCount(max)} requests wait`;
  if (interactive >= max) return [bad(`The queue of ${model} is full: ${waiting}, and further ones get 503.`)];
  return interactive > max / 2 ? [warning(`The queue of ${model} is filling: ${waiting}.`)] : [];
}

/** Of these, the fleet shows only that they are there. */
function silent(processes: readonly { waiting: number | null }[]): Finding[] {
  const count = processes.filter(({ waiting }) => waiting === null).length;
  if (count === 0) return [];
  const who = count === 1 ? '1 process of another release does' : `${count} processes of another release do`;
  return [warning(`What ${who} is not known.`)];
}

/** The backends of each model. */
function modelsOf(backends: readonly Backend[]) {
  const served = backends.flatMap(({ paused, pauses, models }) =>
    models.map(({ model, breakers }) => ({
      model,
      isPaused: paused !== null || pauses.some(({ kind }) => kind === 'account'),
      hasFailed: breakers.closed === 0 && breakers.open > 0,
    })),
  );
  return [...Map.groupBy(served, ({ model }) => model)].map(([model, each]) => ({ model, served: each }));
}

/** No worker may call any backend of the model. */
function outage(model: string, served: readonly { isPaused: boolean; hasFailed: boolean }[]): Finding[] {
  if (served.length === 0 || !served.every(({ isPaused, hasFailed }) => isPaused || hasFailed)) return [];
  const why = served.every(({ hasFailed }) => hasFailed) ? 'all its backends fail' : 'its backends are paused or fail';
  return [bad(`${model} is down: ${why}.`)];
}

function failing(backend: string, { model, breakers, answered, failed, suspects }: Health): Finding[] {
  const { open, 'half-open': halfOpen } = breakers;
  const key = `${backend} ${model}`;
  if (open > 0) {
    const text = `${backend} is not called for ${model} by ${counted(open, 'worker')}: its breaker is open.`;
    return [bad(text, `${key} open`)];
  }
  if (halfOpen > 0) {
    const text = `${backend} has failed for ${model}: its next call tests it, in ${counted(halfOpen, 'worker')}.`;
    return [warning(text, `${key} half-open`)];
  }
  const isFailing = failed > 0 && failed / (answered + failed) > failedShareMax;
  const askedLast = suspects > 0 ? ` It is asked last by ${counted(suspects, 'account')}.` : '';
  const text = `${backend} fails for ${model}: ${failed} of ${answered + failed} calls in the last minute.${askedLast}`;
  return isFailing ? [warning(text, `${key} fails`)] : [];
}

function pausesOf({ backend, paused, pauses }: Backend): Finding[] {
  const has = (kind: Backend['pauses'][number]['kind']) => pauses.some((pause) => pause.kind === kind);
  const account = `${backend} refuses the account of this service there: look at its key, its credit and its bill.`;
  return [
    ...(has('account') ? [bad(account)] : []),
    ...(paused === null ? [] : [warning(`${backend} is paused by ${paused.by}.`, `${backend} paused`)]),
    ...(has('loading') ? [warning(`${backend} loads its model.`)] : []),
  ];
}

function fullness({ backend, calls, limit, per_worker: isPerWorker }: Backend): Finding[] {
  const isFull = limit !== null && !isPerWorker && calls >= limit;
  return isFull ? [warning(`${backend} is full: ${calls} of ${limit} calls.`, `${backend} full`)] : [];
}

function generationsOf(processes: readonly { generation: string }[]): Finding[] {
  const generations = new Set(processes.map(({ generation }) => generation));
  return generations.size > 1 ? [warning('The processes work with different plan files. See Settings.')] : [];
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

function bad(text: string, key = text): Finding {
  return { tone: 'bad', text, key };
}

function warning(text: string, key = text): Finding {
  return { tone: 'warning', text, key };
}
