import type { Key } from '../../routes/present-key.ts';

/** The form of a key: what is typed and chosen. An empty text is no setting; null is all. */
export type KeyDraft = {
  name: string;
  /** As a browser's field for a local date and time has it: `2026-01-31T18:00`. */
  expiresAt: string;
  endpoints: readonly string[] | null;
  models: readonly string[] | null;
  /** One in each line. */
  allowedIps: string;
  limits: Readonly<Record<LimitName, string>>;
  /** Null: as endpoints and models say. */
  files: KeyFiles | null;
};

export type KeyFiles = Key['files'];

export const limitNames = ['requests_per_minute', 'tokens_per_minute', 'tokens_per_month'] as const;
type LimitName = (typeof limitNames)[number];

export const emptyDraft: KeyDraft = {
  name: '',
  expiresAt: '',
  endpoints: null,
  models: null,
  allowedIps: '',
  limits: { requests_per_minute: '', tokens_per_minute: '', tokens_per_month: '' },
  files: null,
};

export function draftOf(key: Key): KeyDraft {
  const typed = (name: LimitName) => String(key.limits?.[name] ?? '');
  return {
    name: key.name,
    expiresAt: key.expires_at === null ? '' : localTime(key.expires_at),
    endpoints: key.endpoints,
    models: key.models,
    allowedIps: (key.allowed_ips ?? []).join('\n'),
    limits: {
      requests_per_minute: typed('requests_per_minute'),
      tokens_per_minute: typed('tokens_per_minute'),
      tokens_per_month: typed('tokens_per_month'),
    },
    files: key.files === usualFiles(key) ? null : key.files,
  };
}

/** The files of a key that does not say which it may use (contract.md#ho7-files-of-a-key). */
export function usualFiles({ endpoints, models }: Pick<KeyDraft, 'endpoints' | 'models'>): KeyFiles {
  return endpoints === null && models === null ? 'all' : 'own';
}

/** The fields of the API that differ from `before`: a field that is not sent stays as it is, also if another tab has changed it. */
export function changesOf(draft: KeyDraft, before: KeyDraft): Record<string, unknown> {
  const earlier: Record<string, unknown> = fieldsOf(before);
  const differs = ([name, value]: [string, unknown]) => JSON.stringify(value) !== JSON.stringify(earlier[name]);
  return Object.fromEntries(Object.entries(fieldsOf(draft)).filter(differs));
}

function fieldsOf({ name, expiresAt, endpoints, models, allowedIps, limits, files }: KeyDraft) {
  const addresses = allowedIps.split(/[\s,]+/).filter((address) => address !== '');
  const numbers = limitNames
    .filter((limit) => limits[limit].trim() !== '')
    .map((limit) => [limit, Number(limits[limit])] as const);
  return {
    name: name.trim(),
    expires_at: expiresAt === '' ? null : Math.floor(new Date(expiresAt).getTime() / 1000),
    endpoints,
    models,
    allowed_ips: addresses.length === 0 ? null : addresses,
    limits: numbers.length === 0 ? null : Object.fromEntries(numbers),
    files,
  };
}

/** Seconds since 1970 as the local date and time, to the minute. */
export function localTime(seconds: number): string {
  const date = new Date(seconds * 1000);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
