import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { someOf } from '../size.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

type Found = { violations: { id: string; help: string; nodes: { html: string; failureSummary?: string }[] }[] };

/**
 * Violations that axe-core finds on the current page, by all of its rules except experimental ones: one text for each place. In dark mode
 * only colours differ from light mode of the same width, so only their rule runs.
 */
export async function findBarriers(page: Page, { colorScheme }: Pick<View, 'colorScheme'>): Promise<string[]> {
  await page.evaluate(axe);
  const rules = colorScheme === 'dark' ? { runOnly: ['color-contrast'] } : {};
  const { violations } = await page.evaluate<Found>(`axe.run(document, ${JSON.stringify(rules)})`);
  return violations.flatMap(({ id, help, nodes }) => nodes.map(({ html }) => `${id}: ${help}: ${html}`));
}

export type View = { colorScheme: 'light' | 'dark'; viewport: { width: number; height: number } };

/** Wide and phone, light and dark. */
export const views: readonly View[] = [1280, 390].flatMap((width) =>
  (['light', 'dark'] as const).map((colorScheme) => ({ colorScheme, viewport: { width, height: 900 } })),
);

/** Light on a phone, where all rules run, and dark on a wide screen. */
const fewViews = views.filter(({ colorScheme, viewport }) => (colorScheme === 'light') === viewport.width < 1_000);

/** The same in each view, named in the results. Also reports what makes a page scroll sideways. */
export async function findBarriersInAllViews(page: Page): Promise<string[]> {
  const found: string[] = [];
  for (const { colorScheme, viewport } of someOf(fewViews, views)) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(viewport);
    const here = await findBarriers(page, { colorScheme });
    const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
    if (overflow > 0) here.push(`the page is ${overflow} px wider than the window`);
    found.push(...here.map((text) => `${colorScheme} ${viewport.width}: ${text}`));
  }
  return found;
}
