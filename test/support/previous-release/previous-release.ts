import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { leaseGraceMs } from '../../../shared/limits/lease-life.ts';
import { timeouts } from '../limits-side.ts';

/** By the name that each is loaded under. The texts stand beside this file as that release had them. */
const scripts: Record<string, { file: string; parts: string[]; flags?: string }> = {
  svcAdmit: { file: 'admit', parts: ['standing', 'leases'] },
  svcStand: { file: 'admit', parts: ['standing', 'leases'], flags: ' flags=allow-oom' },
  svcLook: { file: 'admit', parts: ['standing', 'leases'], flags: ' flags=allow-oom' },
  svcStart: { file: 'start', parts: ['standing', 'leases'] },
  svcMarkStreaming: { file: 'mark-streaming', parts: ['standing', 'leases'] },
  svcSettle: { file: 'settle', parts: ['standing', 'leases'] },
  svcRelease: { file: 'release', parts: ['standing', 'leases'] },
  svcEndLeases: { file: 'end-leases', parts: ['standing', 'leases'] },
  svcSeed: { file: 'seed', parts: ['standing', 'stream-ids'] },
};

type Scripted = Record<string, (...given: string[]) => Promise<unknown>>;

/**
 * A connection on which the limits' scripts are those of the release before this one, whoever loads them. In turns with this
 * release's they show that each reads what the other has written.
 */
export function previousRelease(redis: Redis): Redis {
  return new Proxy(redis, {
    get(target, name: string) {
      if (name === 'defineCommand') {
        return (script: string, { numberOfKeys }: { numberOfKeys: number }) =>
          target.defineCommand(previousName(script), { lua: luaOf(script), numberOfKeys });
      }
      const scripted = target as unknown as Scripted & Record<string, unknown>; // defineCommand adds the scripts
      if (!(name in scripts)) {
        const found = scripted[name];
        return typeof found === 'function' ? found.bind(target) : found;
      }
      return async (...given: string[]) => {
        const answer = await scripted[previousName(name)]?.(...inItsOrder(name, given));
        return inWords.includes(name) && Array.isArray(answer) ? answer.flat().join(' ') : answer;
      };
    },
  });
}

/** These answered by lists. */
const inWords = ['svcAdmit', 'svcStand', 'svcLook', 'svcStart'];

const previousName = (script: string) => `${script}BeforeThis`;

function luaOf(script: string): string {
  const { file, parts, flags = '' } = scripts[script] ?? { file: script, parts: [] };
  const textOf = (name: string) => readFileSync(new URL(`./${name}.lua`, import.meta.url), 'utf8');
  const common = parts.map(textOf).join('');
  return textOf(file)
    .replace(/^#!lua.*\n(?:local clock = .*\n)?/, (lines) => lines + common)
    .replace('#!lua\n', `#!lua${flags}\n`);
}

/** That release gave the admission script as arguments what are constants of its text now. */
function inItsOrder(script: string, given: string[]): string[] {
  const mode = { svcAdmit: 'admit', svcStand: 'stand', svcLook: 'look' }[script];
  if (mode === undefined) return given;
  const [keysAndCaller, charge] = [given.slice(0, 14), given.slice(14)];
  const [request = '', report = '""', tokens = '0', ...rest] = charge;
  const [limits, last] = [rest.slice(0, 8), rest.slice(8)];
  const times = [timeouts.queueMs, timeouts.requestMs, leaseGraceMs.admitted].map(String);
  return [
    ...[...keysAndCaller, mode, '3600000', '15000', request, JSON.parse(report), tokens],
    ...(limits.length > 0 ? limits : ['-1', '-1', '-1', '-1', '-1', '', '0', '0']),
    ...[...times, '1000000', '20', ...last],
  ];
}
