import { useState } from 'preact/hooks';
import type { CreatedKey } from '../../routes/keys/key-schemas.ts';

/** A key in full, as the API has shown it once, with what it may use (null: all). */
export type FullKey = Pick<CreatedKey, 'name' | 'key' | 'endpoints' | 'models'>;

/** Keys in full, in the memory of this page only. */
export interface HeldKeys {
  /** Those that are not dismissed yet, newest first. They are shown again after a visit to another page. */
  readonly fresh: readonly FullKey[];
  /** The key that the page "Try it" starts with. */
  readonly tried: FullKey | undefined;
  add(key: FullKey): void;
  dismiss(key: string): void;
  tryOut(key: FullKey | undefined): void;
  /** Forgets all of them. */
  clear(): void;
}

export function useHeldKeys(): HeldKeys {
  const [fresh, setFresh] = useState<readonly FullKey[]>([]);
  const [tried, tryOut] = useState<FullKey>();
  return {
    fresh,
    tried,
    add: (key) => setFresh((before) => [key, ...before]),
    dismiss: (value) => setFresh((before) => before.filter(({ key }) => key !== value)),
    tryOut,
    clear() {
      setFresh([]);
      tryOut(undefined);
    },
  };
}
