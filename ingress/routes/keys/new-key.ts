import { ulid } from 'ulid';
import type { NewKey } from '../../../shared/store/accounts/key.ts';
import { displayPart, hashKey, makeKey } from '../../callers/api-key.ts';

/** Makes a key, and what the store keeps of it: its hash under the first pepper. */
export function newKey([pepper = '']: readonly string[], createdAt: Date): { key: string; stored: NewKey } {
  const key = makeKey();
  return { key, stored: { id: `key_${ulid()}`, hash: hashKey(key, pepper), display: displayPart(key), createdAt } };
}
