import { withoutSlash } from '../../listener/request-headers.ts';
import type { ExampleModels } from '../example-model.ts';
import type { Placeholders } from '../markdown/fill-placeholders.ts';

/** Public addresses; `docsUrl` has no trailing slash. */
export type DocumentationLinks = {
  baseUrl: string;
  authUrl: string;
  consoleUrl: string;
  topupUrl: string;
  docsUrl: string;
};

/**
 * The values of placeholders. The API's address has no trailing slash, so that a path can follow. `model` is for chat, and
 * `<endpoint>_model` for another endpoint. `endpoint_names` are those that the plan file can list.
 */
export function placeholders(links: DocumentationLinks, models: ExampleModels): Placeholders {
  const { baseUrl, authUrl, consoleUrl, topupUrl, docsUrl } = links;
  return {
    ...Object.fromEntries(Object.entries(models).map(([endpoint, model]) => [`${endpoint}_model`, model])),
    model: models.chat ?? '',
    endpoint_names: Object.keys(models).join(', '),
    base_url: withoutSlash(baseUrl),
    auth_url: authUrl,
    console_url: consoleUrl,
    topup_url: topupUrl,
    docs_url: docsUrl,
  };
}
