import type { FleetView } from '../../routes/fleet.ts';
import { formatCount, formatMs } from '../page/format.ts';
import { type Backend, causeWords, failsOften, has, isAway, isFull, listed } from './backend-state.ts';

type Model = FleetView['pools'][number]['models'][number];

/** Something that an operator should know, beside incidents. `key` stays the same while only a number in its text changes. */
type Finding = { text: string; key: string };

/** A request that has waited longer than this has likely found no worker. */
const longWaitMs = 5_000;

/** What is unusual in the fleet, in words, and no incident. */
export function findingsIn({ pools, backends, workers, ingresses }: FleetView): Finding[] {
  const models = pools.filter(({ workers }) => workers > 0).flatMap((pool) => pool.models);
  return [
    ...models.flatMap(queueOf),
    ...backends.flatMap(failing),
    ...backends.flatMap(pausesOf),
    ...models.flatMap(({ model, oldest_ms: ms }) =>
      ms > longWaitMs
        ? [found(`A request for ${model} has waited ${formatMs(ms)} for a worker.`, `${model} waits`)]
        : [],
    ),
    ...generationsOf([...workers, ...ingresses]),
    ...silent([...workers, ...ingresses]),
  ];
}

/** From half of the room on, no account may take more than a share of it. */
function queueOf({ model, queued: { interactive }, queue_max: max }: Model): Finding[] {
  if (interactive <= max / 2 || interactive >= max) return [];
  const waiting = `${formatCount(interactive)} of ${formatCount(max)} requests wait`;
  return [found(`The queue of ${model} is filling: ${waiting}.`, `${model} filling`)];
}

/** Calls that fail at a backend that is still called. */
function failing(called: Backend): Finding[] {
  const { backend, models } = called;
  const often = models.filter((health) => !isAway(called, health) && failsOften(health));
  if (often.length === 0) return [];
  const [failed, answered] = [sum(often.map((each) => each.failed)), sum(often.map((each) => each.answered))];
  const causes = new Set(often.flatMap(({ last_failure: failure }) => (failure === null ? [] : [causeWords(failure)])));
  const why = causes.size === 0 ? '' : ` (${[...causes].join('; ')})`;
  const suspects = Math.max(...often.map((each) => each.suspects));
  const askedLast = suspects > 0 ? ` ${counted(suspects, 'account')} ${suspects === 1 ? 'asks' : 'ask'} it last.` : '';
  const names = listed(often.map(({ model }) => model));
  const text = `${backend} fails for ${names}: ${failed} of ${failed + answered} calls in the last minute${why}.${askedLast}`;
  return [found(text, `${backend} fails`)];
}

function pausesOf(backend: Backend): Finding[] {
  const { backend: name, paused, calls, limit } = backend;
  return [
    ...(paused === null
      ? []
      : [found(`${name} is paused by ${paused.by_name ?? paused.by}${reasonOf(paused)}.`, `${name} paused`)]),
    ...(has(backend, 'loading') ? [found(`${name} loads its model.`)] : []),
    ...(isFull(backend) ? [found(`${name} is full: ${calls} of ${limit} calls.`, `${name} full`)] : []),
  ];
}

function reasonOf({ reason }: NonNullable<Backend['paused']>): string {
  return reason === null ? '' : `: ${reason}`;
}

function generationsOf(processes: readonly { generation: string }[]): Finding[] {
  const generations = new Set(processes.map(({ generation }) => generation));
  return generations.size > 1 ? [found('The processes work with different plan files. See Plan file.')] : [];
}

/** Of these, the fleet shows only that they are there. */
function silent(processes: readonly { waiting: number | null }[]): Finding[] {
  const count = processes.filter(({ waiting }) => waiting === null).length;
  if (count === 0) return [];
  const who = count === 1 ? '1 process of another release does' : `${count} processes of another release do`;
  return [found(`What ${who} is not known.`, 'silent')];
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function found(text: string, key = text): Finding {
  return { text, key };
}
