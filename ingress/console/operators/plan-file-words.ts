import type { RawPlanFile } from '../../../shared/plan-file/plan-file-schema.ts';
import { formatBytes, formatCount, formatRest } from '../page/format.ts';

/** A setting by its path in the plan file, what it decides, and its value in words. */
export type SettingInWords = { path: string; words: string; value: string };

const words: Readonly<Record<string, string>> = {
  guest_calls_per_minute: 'Calls for guest keys from one network, a minute',
  guest_mints_per_hour: 'New devices from one network, an hour',
  guest_mints_per_hour_total: 'New devices from all networks, an hour',
  guest_days_kept: 'A device without use is removed after',
  usage_months_kept: 'Usage of closed months is kept for',
  media_hosts: 'Hosts of images, audio and files in requests',
  currency: 'Currency of prices',
  'batch.window_s': 'A batch expires after',
  'batch.requests_max': 'Lines of an input file, at most',
  'batch.file_bytes_max': 'Size of an input file, at most',
  'batch.account_bytes_max': 'Size of all files of an account, at most',
  'batch.account_files_max': 'Files of an account, at most',
  'batch.files_kept_days': 'A file is deleted after',
  'batch.upload_bytes_per_second_min': 'Rate of an upload, at least',
  'timeouts.connect_ms': 'Time to connect to a backend',
  'timeouts.first_token_ms': 'Time until the first token of a stream',
  'timeouts.idle_ms': 'Time between two events of a stream',
  'timeouts.request_ms': 'Time of a request in total',
  'timeouts.queue_ms': 'Time until a request leaves the queue',
};

const inTables = new Set(['plans', 'models', 'aliases', 'backends', 'default_plan', 'prices']);

/** The settings that are in no table of their own. One of a later release has the words of its name. */
export function otherSettings(planFile: RawPlanFile): SettingInWords[] {
  const others = Object.entries(planFile).filter(([name]) => !inTables.has(name));
  return others.flatMap(([name, value]) => settingsAt(name, value));
}

function settingsAt(path: string, value: unknown): SettingInWords[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return [{ path, words: words[path] ?? path.replaceAll(/[._]/g, ' '), value: valueInWords(path, value) }];
  return Object.entries(value).flatMap(([name, part]) => settingsAt(`${path}.${name}`, part));
}

/** The name of a setting has its unit. */
function valueInWords(path: string, value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(', ');
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value !== 'number') return String(value ?? 'none');
  if (path.endsWith('_bytes_per_second_min')) return `${formatBytes(value)} a second`;
  if (path.includes('_bytes')) return formatBytes(value);
  if (path.endsWith('_ms')) return value < 1_000 ? `${value} ms` : timeInWords(value);
  if (path.endsWith('_s')) return timeInWords(value * 1_000);
  if (path.includes('_days')) return `${formatCount(value)} days`;
  return path.includes('_months') ? `${formatCount(value)} months` : formatCount(value);
}

/** `1 d`, `2 min 30 s`. */
function timeInWords(ms: number): string {
  return formatRest(ms).replace(/ 0 \S+$/, '');
}

/** Of a million tokens, from a day on. A price that is left out is that of the prompt. */
export type PriceInWords = { model: string; from: string; prompt: string; cached: string; completion: string };

export function pricesOf({ prices = {} }: RawPlanFile): PriceInWords[] {
  return Object.entries(prices).flatMap(([model, list]) =>
    list.map(({ from, prompt, cached = prompt, completion }) => ({ model, from, prompt, cached, completion })),
  );
}
