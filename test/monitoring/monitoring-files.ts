import { readdirSync, readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { z } from 'zod';

const folder = new URL('../../ingress/monitoring/', import.meta.url);
const read = (name: string) => readFileSync(new URL(name, folder), 'utf8');

const panelSchema = z.object({
  id: z.int(),
  title: z.string().min(1),
  description: z.string().min(1),
  type: z.enum(['timeseries', 'stat']),
  gridPos: z.object({ x: z.int(), y: z.int(), w: z.int(), h: z.int() }),
  datasource: z.object({ type: z.literal('prometheus'), uid: z.string().regex(/^\$\{datasource\}$/) }),
  targets: z.array(z.object({ refId: z.string(), expr: z.string().min(1), legendFormat: z.string().min(1) })).min(1),
});

const dashboardSchema = z.object({
  uid: z.string().max(40),
  title: z.string(),
  templating: z.object({ list: z.array(z.object({ name: z.string(), definition: z.string().optional() })) }),
  panels: z.array(panelSchema).min(1),
});

const alertsSchema = z.object({
  groups: z.array(
    z.object({
      rules: z.array(
        z.object({
          alert: z.string(),
          expr: z.string(),
          labels: z.object({ severity: z.enum(['critical', 'warning', 'info']) }),
          annotations: z.object({ summary: z.string(), runbook_url: z.string() }),
        }),
      ),
    }),
  ),
});

const alertTestsSchema = z.object({
  tests: z.array(
    z.object({
      alert_rule_test: z.array(z.object({ alertname: z.string(), exp_alerts: z.array(z.unknown()) })),
    }),
  ),
});

export type Dashboard = z.infer<typeof dashboardSchema> & { name: string };

/** The dashboards that are shipped, by the names of their files. */
export const dashboards: readonly Dashboard[] = readdirSync(new URL('dashboards/', folder)).map((file) => ({
  name: file.replace(/\.json$/, ''),
  ...dashboardSchema.parse(JSON.parse(read(`dashboards/${file}`))),
}));

export const alertsFile = new URL('alerts.yaml', folder).pathname;
export const alertTestsFile = new URL('alert-tests.yaml', import.meta.url).pathname;
export const alerts = alertsSchema.parse(parse(read('alerts.yaml'))).groups.flatMap(({ rules }) => rules);
export const alertTests = alertTestsSchema
  .parse(parse(readFileSync(alertTestsFile, 'utf8')))
  .tests.flatMap(({ alert_rule_test }) => alert_rule_test);
