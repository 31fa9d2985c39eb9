import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pageFile, readText, renderedFile, renderedText, root, valuesOnPage, withObjects } from './chart-page.ts';
import { provideHelm, runHelm } from './run-helm.ts';

const help = `npm run chart              prints what the Helm chart makes of the values in ${pageFile}
npm run chart -- --write   also writes ${renderedFile} and the objects in ${pageFile}
Go builds Helm at the first run, which takes a minute.
`;

const wishes = process.argv.slice(2);
if (wishes.some((wish) => wish !== '--write')) {
  process.stderr.write(help);
  process.exitCode = 2;
} else {
  const page = readText(pageFile);
  const { values, plans } = valuesOnPage(page);
  const output = await runHelm(await provideHelm(), 'template', { values: [values], plans });
  process.stdout.write(output);
  if (wishes.includes('--write')) {
    await writeFile(join(root, renderedFile), renderedText(output, page));
    await writeFile(join(root, pageFile), withObjects(page, output));
  }
}
