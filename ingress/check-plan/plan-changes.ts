import { isDeepStrictEqual } from 'node:util';
import { isObject } from '../../shared/json/json-values.ts';
import type { ShownPlanFile } from '../api/present-plan-file.ts';

/**
 * The differences of two plan files, one line each: `+ models.new-chat {…}`, `- backends.old`, and for a value that has changed
 * `  plans.free.requests_per_minute: 20 → 60`, with `none` if it was or will be left out.
 */
export function planChanges(before: ShownPlanFile, after: ShownPlanFile): string[] {
  return changesAt('', before, after);
}

/** What follows from the changes for the operator. */
export function planEffects(before: ShownPlanFile, after: ShownPlanFile): string[] {
  const newOf = (section: string, field: string) => {
    const known = new Set(valuesOf(before, section, field));
    return [...new Set(valuesOf(after, section, field))].filter((value) => !known.has(value));
  };
  const models = Object.keys(sectionOf(after, 'models'));
  const gone = Object.keys(sectionOf(before, 'models')).filter((name) => !models.includes(name));
  return [
    ...newOf('models', 'pool').map((pool) => `Ingresses switch once a worker serves the new pool "${pool}".`),
    ...newOf('backends', 'api_key_env').map(
      (name) => `Workers need the variable ${name}, or they do not call the backends that name it.`,
    ),
    ...fileFields.flatMap((field) =>
      newOf('backends', field).map((file) => `Workers need the file ${file}, or the plan file is invalid for them.`),
    ),
    ...gone.map((name) => `New requests for "${name}" are refused. Those that wait or run are ended by the workers.`),
  ];
}

const fileFields = ['api_key_file', 'ca_file', 'client_cert_file', 'client_key_file'];

function changesAt(path: string, before: unknown, after: unknown): string[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (!isObject(before) || !isObject(after)) return [`  ${path}: ${shown(before)} → ${shown(after)}`];
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.flatMap((name) => {
    const at = path === '' ? name : `${path}.${name}`;
    const [was, is] = [before[name], after[name]];
    if (was === undefined && isObject(is)) return [`+ ${at} ${JSON.stringify(is)}`];
    if (is === undefined && isObject(was)) return [`- ${at}`];
    return changesAt(at, was, is);
  });
}

function shown(value: unknown): string {
  return value === undefined ? 'none' : JSON.stringify(value);
}

function sectionOf(planFile: ShownPlanFile, section: string): Readonly<Record<string, unknown>> {
  const found = planFile[section];
  return isObject(found) ? found : {};
}

function valuesOf(planFile: ShownPlanFile, section: string, field: string): string[] {
  return Object.values(sectionOf(planFile, section)).flatMap((entry) => {
    const value = isObject(entry) ? entry[field] : undefined;
    return typeof value === 'string' ? [value] : [];
  });
}
