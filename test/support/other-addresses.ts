/** Settings of a service whose console and documentation are not where its API is; a client id that has to be escaped. */
export const otherAddresses = {
  CONSOLE_URL: 'https://console.example/some/where/',
  CONSOLE_CLIENT_ID: 'a"b<c>',
  DOCS_URL: 'https://docs.example.com',
};
