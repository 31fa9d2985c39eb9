import { useState } from 'preact/hooks';
import type { CreatedKey } from '../../routes/keys/key-schemas.ts';

/** A key in full, as the API has shown it once, with what it may use (null: all). */
export type FullKey = Pick<CreatedKey, 'name' | 'key' | 'endpoints' | 'models'>;

/** Keys in full, in the memory of this page only. */
export interface HeldKeys {
  /** Those that are not dismissed yet, newest first. They are shown again after a visit to another page. */
  readonly fresh: readonly FullKey[];
  add(key: FullKey): void;
  dismiss(key: string): void;
  /** Forgets all of them. */
  clear(): void;
}

export function useHeldKeys(): HeldKeys {
  const [fresh, setFresh] = useState<readonly FullKey[]>([]);
  return {
    fresh,
    add: (key) => setFresh((before) => [key, ...before]),
    dismiss: (value) => setFresh((before) => before.filter(({ key }) => key !== value)),
    clear: () => setFresh([]),
  };
}
