import type { z } from 'zod';
import type { Endpoint } from '../../../shared/endpoints/definition/endpoint.ts';

/** The documentation of one endpoint. What its definition says, such as its path, its headers and its request, is taken from there. */
export type EndpointDescription = {
  endpoint: Endpoint;
  id: string;
  summary: string;
  description: string;
  /** The name of the request's schema in the document. */
  request: { schema: string; example: object };
  answer: { schema: string; description: string; example: object };
  /** If the endpoint has streams: names of the schemas of its events, a description, and an example of a whole stream. */
  stream?: { events: readonly string[]; description: string; example: string };
  /** If its errors have a shape of their own. */
  errorSchema?: string;
  /** The schemas that are named here, except the request's. */
  schemas: Readonly<Record<string, z.ZodType>>;
};
