import { isRefusal, type Operation } from './openapi-document.ts';

/** The errors of one status: codes, and the types of limits that were exceeded. Each has a section on the page about errors. */
export type Refusals = { status: string; codes: string[]; limits: string[] };

/** Read from the descriptions: a paragraph for each code, then a list of the limits. */
export function refusalsOf({ responses }: Operation): Refusals[] {
  return Object.entries(responses)
    .filter(([status]) => isRefusal(status))
    .map(([status, { description }]) => ({
      status,
      codes: [...description.matchAll(/^`(\w+)`: /gm)].map(([, code = '']) => code),
      limits: [...description.matchAll(/^- `(\w+)`: /gm)].map(([, type = '']) => type),
    }));
}
