import ava, { type ExecutionContext, type TestFn } from 'ava';
import { declareLater } from './declarations.ts';
import { inTurn } from './tests-at-once.ts';

/** The file of this copy of the module, by its path from the top. */
const file = new URL(import.meta.url).searchParams.get('file') ?? '';

type Implementation = (t: ExecutionContext) => unknown;
const eachHook = /^(before|after)Each$/;

/**
 * The test function of one file that shares its process with others: titles begin with the file's path, so that they are unique and
 * say where they stand; hooks for each test leave the tests of other files alone.
 */
export default titled(ava, []);

function titled<Chain extends object>(chain: Chain, names: readonly string[]): Chain {
  return new Proxy(chain, {
    get(target, name, receiver) {
      const next: unknown = Reflect.get(target, name, receiver);
      return typeof next === 'function' && typeof name === 'string' ? titled(next, [...names, name]) : next;
    },
    apply(target, self, args: unknown[]) {
      const [first, ...others] = typeof args[0] === 'string' ? args : ['', ...args];
      const title = `${file}: ${first}`;
      const call = target as unknown as (...args: unknown[]) => void; // every link of ava's chain is callable
      const isHook = names.some((name) => /^(before|after)/.test(name));
      const [implementation, ...more] = others;
      if (typeof implementation !== 'function')
        return declareLater(() => Reflect.apply(call, self, [title, ...others]));
      const run = implementation as Implementation; // as its file has given it to ava
      const forEach = names.some((name) => eachHook.test(name));
      const own = (t: ExecutionContext) => {
        if (forEach) return t.title.includes(`${file}: `) ? run(t) : undefined;
        return isHook ? run(t) : inTurn(() => run(t));
      };
      return declareLater(() => Reflect.apply(call, self, [title, own, ...more]));
    },
  }) as Chain;
}

export type { TestFn };
