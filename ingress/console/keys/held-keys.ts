import { useState } from 'preact/hooks';
import type { CreatedKey } from '../../routes/present-key.ts';

/** A key in full, as the API has shown it once, with what it may use (null: all). */
export type FullKey = Pick<CreatedKey, 'name' | 'key' | 'endpoints' | 'models'>;

/** Keys in full, in the memory of this page only. */
export function useHeldKeys() {
  const [fresh, setFresh] = useState<readonly FullKey[]>([]);
  return {
    /** Those that are not dismissed yet, newest first. They are shown again after a visit to another page. */
    fresh,
    add: (key: FullKey): void => setFresh((before) => [key, ...before]),
    dismiss: (value: string): void => setFresh((before) => before.filter(({ key }) => key !== value)),
    /** Forgets all of them. */
    clear: (): void => setFresh([]),
  };
}

export type HeldKeys = ReturnType<typeof useHeldKeys>;
