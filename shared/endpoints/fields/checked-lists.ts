import { z } from 'zod';

/** The check stops after this many issues: only ten are named, and a body with nothing but issues must not cost seconds and gigabytes. */
export const issuesMax = 11;

/** Adds the issues of a list's items to `ctx`, each under its item's index, until there are enough. */
export function checkItems(items: readonly unknown[], item: z.ZodType, ctx: z.RefinementCtx): void {
  let issues = 0;
  for (const [index, value] of items.entries()) {
    for (const { path, message } of item.safeParse(value).error?.issues ?? []) {
      ctx.addIssue({ code: 'custom', path: [index, ...path], message });
      issues++;
    }
    if (issues >= issuesMax) return;
  }
}

/** `documentedAs`, here and in other schemas: the schema that documents for clients what is checked by hand. */
export function listOf(item: z.ZodType) {
  return z
    .custom<unknown[]>(Array.isArray, 'expected an array')
    .superRefine((items, ctx) => checkItems(items, item, ctx))
    .meta({ documentedAs: z.array(item) });
}
