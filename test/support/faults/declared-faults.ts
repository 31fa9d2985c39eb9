import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Fault } from './fault-test.ts';

export type DeclaredFault = Fault & {
  /** Relative to the root of the repository. */
  file: string;
};

const root = fileURLToPath(new URL('../../..', import.meta.url));
const declaration = /\bid: '([^']+)',\s*done:\s*(?:'([^']+)'|"([^"]+)"),\s*promised:\s*(?:'([^']+)'|"([^"]+)")/g;

/** Every fault that the text of a test file declares, unchanged. */
export function faultsIn(text: string): Fault[] {
  return [...text.matchAll(declaration)].map(([, id = '', done, done2, promised, promised2]) => ({
    id,
    done: done ?? done2 ?? '',
    promised: promised ?? promised2 ?? '',
  }));
}

/** The faults of test/faults, by number and letter. Found by reading the text: loading a test file would run it. */
export function declaredFaults(): DeclaredFault[] {
  const files = readdirSync(join(root, 'test/faults')).filter((name) => /\.(test|slow|nightly)\.ts$/.test(name));
  const declared = files.flatMap((name) => {
    const file = `test/faults/${name}`;
    return faultsIn(readFileSync(join(root, file), 'utf8')).map((fault) => ({ ...fault, file }));
  });
  return declared.toSorted((one, other) => byId(one.id, other.id));
}

/** 2 before 10, 9 before 9a, numbers before A and B. */
export function byId(one: string, other: string): number {
  return keyOf(one) < keyOf(other) ? -1 : Number(keyOf(one) > keyOf(other));
}

function keyOf(id: string): string {
  const [, kind = '', number = '', letter = ''] = partsOf(id);
  return `${kind}${number.padStart(3, '0')}${letter}`;
}

const partsOf = (id: string) => /^([AB]?)(\d+)([a-z]?)$/.exec(id) ?? [];

export const isId = (id: string) => partsOf(id).length > 0;

/** `9` means 9, 9a, 9b; `9b` only itself; `B` all faults of batches. */
export function isMeant(id: string, wish: string): boolean {
  return id === wish || id.replace(/[a-z]$/, '') === wish || (/^[AB]$/.test(wish) && id.startsWith(wish));
}
