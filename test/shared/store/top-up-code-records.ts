import { ulid } from 'ulid';
import type { TopUpCode } from '../../../shared/store/records/top-up-codes.ts';

export const codeTime = new Date('2026-03-10T12:00:00.000Z');

export function topUpCodeOf(fields: Partial<TopUpCode> = {}): TopUpCode {
  const id = `tuc_${ulid()}`;
  const made = { createdAt: codeTime, createdBy: 'user:olga', createdFrom: '198.51.100.7' };
  return { id, hash: `hash of ${id}`, tokens: 500, state: 'unused', ...made, ...fields };
}
