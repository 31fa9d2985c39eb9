import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { createOpenApiDocument } from '../../ingress/api/openapi-document.ts';
import { routes } from '../../ingress/routes.ts';

const version = z.object({ version: z.string() });
const lockSchema = z.object({ version: z.string(), packages: z.object({ '': version }) });
const chartSchema = z.object({ version: z.string(), appVersion: z.string() });
const openApiSchema = z.object({ info: version });

/** The newest version of the changelog, and its date: `Unreleased` until it has one. */
export type Entry = { version: string; date: string };

/** The newest entry of a changelog, of the form `## [0.1.0] - 2026-12-01`. */
export function newestEntry(changelog: string): Entry {
  const [, version = 'none', date = 'none'] = /^## \[(\d+\.\d+\.\d+)\] - (\S+)$/m.exec(changelog) ?? [];
  return { version, date };
}

/** Each place of a project that says its version, and what it says. */
export function versionsOf(root: string): Map<string, string> {
  const read = (path: string) => readFileSync(join(root, path), 'utf8');
  const addresses = { baseUrl: 'http://a', docsUrl: 'http://a/docs', authUrl: 'http://b' };
  const lock = lockSchema.parse(JSON.parse(read('package-lock.json')));
  const chart = chartSchema.parse(parse(read('ingress/deployment/chart/Chart.yaml')));
  const [, upgrading = 'none'] = /^This page belongs to (\d+\.\d+\.\d+)\.$/m.exec(read(upgradingPage)) ?? [];
  return new Map([
    ['package.json', version.parse(JSON.parse(read('package.json'))).version],
    ['package-lock.json', lock.version],
    ['package-lock.json, its package', lock.packages[''].version],
    ['the OpenAPI document', openApiSchema.parse(createOpenApiDocument(routes, addresses)).info.version],
    ['the chart', chart.version],
    ['the image of the chart', chart.appVersion],
    [changelogPage, newestEntry(read(changelogPage)).version],
    [upgradingPage, upgrading],
  ]);
}

export const changelogPage = 'ingress/documentation/changelog.md';
const upgradingPage = 'ingress/documentation/upgrading.md';
