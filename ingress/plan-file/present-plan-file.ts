import { namedSections, type PlanFile } from '../../shared/plan-file/plan-file.ts';

/** A plan file with the names of the file and all defaults. Passwords in addresses of backends are replaced by asterisks. */
export type ShownPlanFile = Readonly<Record<string, unknown>>;

export function presentPlanFile(planFile: PlanFile): ShownPlanFile {
  const backends = Object.entries(planFile.backends).map(([name, { url, ...others }]) => {
    return [name, { url: withoutPassword(url), ...others }] as const;
  });
  return snakeCase({ ...planFile, backends: Object.fromEntries(backends) }) as ShownPlanFile; // the shape is that of the plan file
}

function snakeCase(value: unknown, keysAreNames = false): unknown {
  if (Array.isArray(value)) return value.map((item) => snakeCase(item));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, item]) => {
    const name = keysAreNames ? key : key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    return [name, snakeCase(item, namedSections.has(key) && !keysAreNames)] as const;
  });
  return Object.fromEntries(entries);
}

function withoutPassword(address: string): string {
  const url = new URL(address);
  if (url.username === '' && url.password === '') return address;
  url.username = '****';
  url.password = '';
  return url.href;
}
