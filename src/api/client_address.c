/* Where the client of an exchange is: the server knows. */
#include "api/state.h"

void front_set_address_finder(struct front *front,
                              void (*find)(const struct exchange *exchange, char *text, size_t size))
{
    front->find_address = find;
}

void front_client_address(const struct front *front, const struct exchange *exchange,
                          char text[static CLIENT_ADDRESS_SIZE])
{
    text[0] = '\0';
    if (front->find_address != NULL)
        front->find_address(exchange, text, CLIENT_ADDRESS_SIZE);
}
