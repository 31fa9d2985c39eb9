import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The chart and what is made from it, without Helm. */

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const chartFolder = 'ingress/deployment/chart';
export const renderedFile = 'test/chart/rendered.yaml';
export const pageFile = 'ingress/documentation/kubernetes.md';

export const readText = (path: string) => readFileSync(join(root, path), 'utf8');

function blocksOf(page: string, info: string): string[] {
  const blocks = page.matchAll(/^```(.*)\n([\s\S]*?)^```$/gm);
  return [...blocks].filter(([, found]) => found === info).map(([, , text = '']) => text);
}

/** The values that the page begins with, its plan file, and further values, each of which is used with the first ones. */
export function valuesOnPage(page: string): { values: string; plans: string; further: string[] } {
  const [values, ...further] = blocksOf(page, 'yaml values');
  const [plans, ...others] = blocksOf(page, 'yaml plans');
  if (values === undefined || plans === undefined || others.length > 0) throw new Error(`${pageFile} has no values`);
  return { values, plans, further };
}

/** Of the chart and of the values on the page: what `rendered.yaml` is made from. */
export function hashOfInput(page: string): string {
  const { values, plans } = valuesOnPage(page);
  const hash = createHash('sha256').update(JSON.stringify({ values, plans }));
  const names = readdirSync(join(root, chartFolder), { recursive: true, withFileTypes: true });
  const paths = names.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  for (const path of paths.toSorted()) hash.update(path.slice(root.length)).update('\0').update(readFileSync(path));
  return hash.digest('hex');
}

/** The file with the output of `helm template`, which says what it was made from. */
export function renderedText(output: string, page: string): string {
  return `# The output of helm template for the values in ${pageFile}. Written by: npm run chart -- --write
# SHA-256 of the chart and these values: ${hashOfInput(page)}
${output}`;
}

/** The text of each object, by its kind and name. */
export function objectsOf(rendered: string): Map<string, string> {
  const texts = rendered.split(/^---\n/m).slice(1);
  return new Map(
    texts.map((text) => {
      const [, kind = ''] = /^kind: (\w+)$/m.exec(text) ?? [];
      const [, name = ''] = /^metadata:\n {2}name: (\S+)$/m.exec(text) ?? [];
      return [`${kind} ${name}`, `${text.replace(/^# Source: .*\n/, '').trim()}\n`];
    }),
  );
}

const shown = /(?<=^<!-- from npm run chart: (\w+ \S+) -->\n)[\s\S]*?(?=^<!-- end of npm run chart -->$)/gm;

/** Returns the page with the objects between its marks. Throws if it shows none, or one that is not there. */
export function withObjects(page: string, rendered: string): string {
  const objects = objectsOf(rendered);
  if (page.search(shown) < 0) throw new Error(`${pageFile} shows no object`);
  return page.replace(shown, (_, name: string) => {
    const text = objects.get(name);
    if (text === undefined) throw new Error(`the chart makes no ${name}`);
    return `\`\`\`yaml chart\n${text}\`\`\`\n`;
  });
}
