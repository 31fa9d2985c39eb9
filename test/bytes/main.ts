import { readFile, writeFile } from 'node:fs/promises';
import type { Bytes, ItemBytes } from '../../workers/memory/item-bytes.ts';
import { createMongoHome } from '../support/mongodb/mongo-home.ts';
import { startMongo } from '../support/mongodb/start-mongo.ts';
import { pageFile, withBytes } from './bytes-page.ts';
import { measureBytes } from './measured-bytes.ts';

const help = `npm run bytes              measures what each item takes in Redis and in the store
npm run bytes -- --write   also writes workers/memory/item-bytes.ts and the tables of ${pageFile}
`;
const valuesFile = 'workers/memory/item-bytes.ts';

const wishes = process.argv.slice(2);
if (wishes.some((wish) => wish !== '--write')) {
  process.stderr.write(help);
  process.exitCode = 2;
} else {
  const bytes = await measure();
  process.stdout.write(`${JSON.stringify(bytes, undefined, 2)}\n`);
  if (wishes.includes('--write')) await write(bytes);
}

async function measure(): Promise<ItemBytes> {
  const mongo = await startMongo();
  if (!('url' in mongo)) return measureBytes(undefined);
  await using _server = mongo;
  return await measureBytes(() => createMongoHome(mongo));
}

async function write(bytes: ItemBytes): Promise<void> {
  const [values, page] = [
    new URL(`../../${valuesFile}`, import.meta.url),
    new URL(`../../${pageFile}`, import.meta.url),
  ];
  const text = await readFile(values, 'utf8');
  await writeFile(
    values,
    text.replace(/(?<=export const itemBytes = \{\n)[\s\S]*?(?=^\} satisfies)/m, sourceOf(bytes)),
  );
  await writeFile(page, withBytes(await readFile(page, 'utf8'), roundedBytes(bytes)));
  process.stdout.write(`${valuesFile} and ${pageFile} have the measured bytes.\n`);
}

/** The lines of the object in that file, as the formatter writes them. */
function sourceOf(bytes: ItemBytes): string {
  const number = (value: number) => Math.round(value).toLocaleString('en-US').replaceAll(',', '_');
  const itemOf = ([name, item]: [string, Bytes]) => {
    const perKibibyte = item.perKibibyte === undefined ? '' : `, perKibibyte: ${number(item.perKibibyte)}`;
    return `    ${name}: { bytes: ${number(item.bytes)}${perKibibyte} },\n`;
  };
  return Object.entries(bytes)
    .map(([place, items]) => `  ${place}: {\n${Object.entries(items).map(itemOf).join('')}  },\n`)
    .join('');
}

function roundedBytes(bytes: ItemBytes): ItemBytes {
  return JSON.parse(JSON.stringify(bytes), (_key, value) => (typeof value === 'number' ? Math.round(value) : value));
}
