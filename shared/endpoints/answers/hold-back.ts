import { BackendError } from './backend-error.ts';

/**
 * Holds the beginning of a stream back until the answer proper has begun. The returned function takes what is ready, and returns what may
 * be sent. Fails with `unreadable` if more than `charactersMax` are held.
 */
export function createHoldBack(begun: () => boolean, charactersMax: number): (ready: string) => string {
  let held = '';
  return function release(ready) {
    if (begun() && held === '') return ready;
    held += ready;
    if (!begun() && held.length > charactersMax) {
      throw new BackendError('unreadable', `no token within ${charactersMax} characters`);
    }
    if (!begun()) return '';
    const before = held;
    held = '';
    return before;
  };
}
