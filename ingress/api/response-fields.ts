import { z } from 'zod';

export const count = z.int().nonnegative();
/** Of a limit; null if there is none. */
export const limit = count.nullable();
export const seconds = z.int().nonnegative().meta({ description: 'Seconds since 1970, UTC.' });
/** The last second of the year 9999, for times that clients choose. */
export const latestTime = 253_402_300_799;
export const time = z.iso.datetime();
/** A time that a client gives. */
export const givenTime = z.iso.datetime('expected a time as 2026-03-01T14:00:00Z').transform((text) => new Date(text));
export const date = z.iso.date();
export const keyId = z.string().nullable().meta({ description: 'The API key that was used; null: a sign-in token.' });
export const displayName = z
  .string()
  .optional()
  .meta({ description: 'The display name of the account, if there is one.' });

export function secondsOf(time: Date): number {
  return Math.floor(time.getTime() / 1_000);
}

/** In seconds; null if there is no time. */
export function secondsOrNull(time: Date | undefined): number | null {
  return time === undefined ? null : secondsOf(time);
}

/** Null for a sign-in token, and for what was stored before the key was. */
export function shownKeyId(keyId: string): string | null {
  return keyId === '' ? null : keyId;
}

/** The display name of an account as a field of a response. Without a name there is no such field. */
export function nameFieldOf(names: ReadonlyMap<string, string>, account: string): { name?: string } {
  const name = names.get(account);
  return name === undefined ? {} : { name };
}
